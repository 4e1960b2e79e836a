-- Takes a key under which nothing stands for a request that is being worked on (status 0). No row: something stands.
-- 1 namespace, 2 key (bytes), 3 request_hash (as signed), 4 owner (bytes), 5 reserved until (ms).
INSERT IGNORE INTO reply (namespace, reply_key, request_hash, status, body, keep_until) VALUES (?, ?, ?, 0, ?, ?)
