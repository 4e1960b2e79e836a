-- Answers that are kept under idempotency keys.

-- name: load
-- Reads an answer that has not expired. A reservation (status 0) is no answer.
-- parameters: ?1 namespace, ?2 key, ?3 now (ms).
SELECT request_hash, status, body, keep_until FROM reply WHERE namespace = ?1 AND key = ?2 AND status <> 0 AND keep_until > ?3

-- name: release
-- Deletes a reservation.
-- parameters: ?1 namespace, ?2 key, ?3 owner (bytes).
DELETE FROM reply WHERE namespace = ?1 AND key = ?2 AND status = 0 AND body = ?3

-- name: reserve
-- Reserves a key for a request that is being worked on (status 0), unless an answer or another owner's reservation
-- has not expired. The same owner extends its reservation.
-- parameters: ?1 namespace, ?2 key, ?3 request_hash (as signed), ?4 owner (bytes), ?5 reserved until (ms), ?6 now
-- (ms).
INSERT INTO reply (namespace, key, request_hash, status, body, keep_until) VALUES (?1, ?2, ?3, 0, ?4, ?5)
ON CONFLICT (namespace, key) DO UPDATE SET
    request_hash = excluded.request_hash, status = 0, body = excluded.body, keep_until = excluded.keep_until
WHERE keep_until <= ?6 OR (status = 0 AND body = excluded.body)

-- name: read
-- Reads the answer or reservation of a key.
-- parameters: ?1 namespace, ?2 key.
SELECT request_hash, status, body, keep_until FROM reply WHERE namespace = ?1 AND key = ?2

-- name: save
-- Saves an answer.
-- parameters: ?1 namespace, ?2 key, ?3 request_hash (as signed), ?4 HTTP status, ?5 body, ?6 keep_until (ms).
INSERT INTO reply (namespace, key, request_hash, status, body, keep_until) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (namespace, key) DO UPDATE SET
    request_hash = excluded.request_hash, status = excluded.status, body = excluded.body,
    keep_until = excluded.keep_until
