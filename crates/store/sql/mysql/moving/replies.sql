-- The replies of a namespace in order, in short.
-- 1 namespace, 2 after this key, 3 up to this key (bytes, inclusive), 4 limit.
SELECT reply_key, CAST(CONCAT_WS('|', request_hash, status, keep_until, SHA2(body, 256)) AS CHAR) FROM reply
WHERE namespace = ? AND reply_key > ? AND reply_key <= ?
ORDER BY reply_key LIMIT ?
