-- Answers that are kept under idempotency keys.

-- name: load
-- Reads an answer that has not expired. A reservation (status 0) is no answer.
-- parameters: 1 namespace, 2 key (bytes), 3 now (ms).
SELECT request_hash, status, body, keep_until FROM reply WHERE namespace = ? AND reply_key = ? AND status <> 0 AND keep_until > ?

-- name: release
-- Deletes a reservation.
-- parameters: 1 namespace, 2 key (bytes), 3 owner (bytes).
DELETE FROM reply WHERE namespace = ? AND reply_key = ? AND status = 0 AND body = ?

-- name: reserve
-- Reserves a free key for a request that is being worked on (status 0). No row: the key is taken.
-- parameters: 1 namespace, 2 key (bytes), 3 request_hash (as signed), 4 owner (bytes), 5 reserved until (ms).
INSERT IGNORE INTO reply (namespace, reply_key, request_hash, status, body, keep_until) VALUES (?, ?, ?, 0, ?, ?)

-- name: reserve_expired
-- Reserves a key whose answer or reservation has expired, or extends the same owner's reservation. Not one upsert:
-- after `body = ...`, MariaDB compares a blob with the value that was just assigned to it.
-- parameters: 1 request_hash (as signed), 2 owner (bytes), 3 reserved until (ms), 4 namespace, 5 key (bytes), 6 now
-- (ms), 7 owner (bytes).
UPDATE reply SET request_hash = ?, status = 0, body = ?, keep_until = ?
WHERE namespace = ? AND reply_key = ? AND (keep_until <= ? OR (status = 0 AND body = ?))

-- name: read
-- Reads the answer or reservation of a key.
-- parameters: 1 namespace, 2 key (bytes).
SELECT request_hash, status, body, keep_until FROM reply WHERE namespace = ? AND reply_key = ?

-- name: save
-- Saves an answer.
-- parameters: 1 namespace, 2 key (bytes), 3 request_hash (as signed), 4 HTTP status, 5 body, 6 keep_until (ms).
INSERT INTO reply (namespace, reply_key, request_hash, status, body, keep_until) VALUES (?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE request_hash = VALUES(request_hash), status = VALUES(status), body = VALUES(body),
    keep_until = VALUES(keep_until)
