-- An answer whose time is not over. ?1 namespace, ?2 key, ?3 now (ms).
SELECT request_hash, status, body, keep_until FROM reply WHERE namespace = ?1 AND key = ?2 AND keep_until > ?3
