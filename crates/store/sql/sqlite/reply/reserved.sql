-- What stands under a key. ?1 namespace, ?2 key.
SELECT request_hash, status, body, keep_until FROM reply WHERE namespace = ?1 AND key = ?2
