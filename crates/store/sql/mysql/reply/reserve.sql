-- Takes a key for a request that is being worked on (status 0), unless an answer stands there, or another's reservation,
-- whose time is not over. Said again by the same owner it lasts longer. `keep_until` comes last: what is assigned
-- before it looks at it as it was.
-- 1 namespace, 2 key (bytes), 3 request_hash (as signed), 4 owner (bytes), 5 reserved until (ms), 6 now (ms),
-- 7 now (ms), 8 now (ms), 9 now (ms).
INSERT INTO reply (namespace, reply_key, request_hash, status, body, keep_until) VALUES (?, ?, ?, 0, ?, ?)
ON DUPLICATE KEY UPDATE
    request_hash = IF(keep_until <= ? OR (status = 0 AND body = VALUES(body)), VALUES(request_hash), request_hash),
    status = IF(keep_until <= ?, 0, status),
    body = IF(keep_until <= ?, VALUES(body), body),
    keep_until = IF(keep_until <= ? OR (status = 0 AND body = VALUES(body)), VALUES(keep_until), keep_until)
