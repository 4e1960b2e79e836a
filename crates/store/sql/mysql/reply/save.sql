-- Keeps an answer. 1 namespace, 2 key (bytes), 3 request_hash (as signed), 4 HTTP status, 5 body, 6 keep_until (ms).
INSERT INTO reply (namespace, reply_key, request_hash, status, body, keep_until) VALUES (?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE request_hash = VALUES(request_hash), status = VALUES(status), body = VALUES(body),
    keep_until = VALUES(keep_until)
