-- What stands under a key. 1 namespace, 2 key (bytes).
SELECT request_hash, status, body, keep_until FROM reply WHERE namespace = ? AND reply_key = ?
