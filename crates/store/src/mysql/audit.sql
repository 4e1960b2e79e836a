-- The audit log, in the catalog.

-- name: append
-- Appends an entry; its number is the insert id. An entry whose key exists changes nothing, and the existing number
-- is answered.
-- parameters: 1 at (ms), 2 token, 3 caller, 4 address, 5 action, 6 request, 7 namespace, 8 request id, 9 times,
-- 10 status, 11 completed at (ms), 12 reason, 13 before (JSON), 14 after (JSON), 15 key.
INSERT INTO audit (at, token_id, caller, address, action, request, namespace, request_id, times, status, completed_at,
    reason, before_json, after_json, entry_key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id)

-- name: read_bounds
-- Reads the lowest and the highest number of the entries; 0 and 0 if there is none.
SELECT COALESCE(MIN(id), 0), COALESCE(MAX(id), 0) FROM audit

-- name: complete
-- Writes the result of an entry that has none yet.
-- parameters: 1 status, 2 at (ms), 3 reason, 4 before (JSON), 5 after (JSON), 6 id.
UPDATE audit SET status = ?, completed_at = ?, reason = ?, before_json = ?, after_json = ?
WHERE id = ? AND status IS NULL

-- name: list_page
-- Lists entries of a range of numbers, the newest first. An empty text is no condition.
-- parameters: 1 from this number, 2 below this number, 3 and 4 token, 5 and 6 action, 7 and 8 namespace, 9 from (ms),
-- 10 before (ms), 11 limit.
SELECT id, at, token_id, caller, address, action, request, namespace, request_id, times, status, completed_at, reason,
    before_json, after_json
FROM audit
WHERE id >= ? AND id < ? AND (? = '' OR token_id = ?) AND (? = '' OR action = ?)
    AND (? = '' OR namespace = ?) AND at >= ? AND at < ?
ORDER BY id DESC LIMIT ?

-- name: find_since
-- Finds the number of the first entry at or after an instant; no row: there is none.
-- parameters: 1 at (ms).
SELECT id FROM audit WHERE at >= ? ORDER BY at, id LIMIT 1

-- name: delete_oldest
-- Deletes the oldest entries.
-- parameters: 1 before (ms), 2 how many at most.
DELETE FROM audit WHERE at < ? ORDER BY at LIMIT ?
