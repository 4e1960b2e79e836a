-- The audit log.

-- name: append
-- Appends an entry and answers its number. An entry whose key exists changes nothing, and the existing number is
-- answered.
-- parameters: ?1 at (ms), ?2 token, ?3 caller, ?4 address, ?5 action, ?6 request, ?7 namespace, ?8 request id,
-- ?9 times, ?10 status, ?11 completed at (ms), ?12 reason, ?13 before (JSON), ?14 after (JSON), ?15 key.
INSERT INTO audit (at, token_id, caller, address, action, request, namespace, request_id, times, status, completed_at,
    reason, before_json, after_json, entry_key)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
ON CONFLICT (entry_key) DO UPDATE SET times = times RETURNING id

-- name: read_bounds
-- Reads the lowest and the highest number of the entries; 0 and 0 if there is none.
SELECT coalesce((SELECT min(id) FROM audit), 0), coalesce((SELECT max(id) FROM audit), 0)

-- name: complete
-- Writes the result of an entry that has none yet.
-- parameters: ?1 id, ?2 status, ?3 at (ms), ?4 reason, ?5 before (JSON), ?6 after (JSON).
UPDATE audit SET status = ?2, completed_at = ?3, reason = ?4, before_json = ?5, after_json = ?6
WHERE id = ?1 AND status IS NULL

-- name: list_page
-- Lists entries of a range of numbers, the newest first. An empty text is no condition.
-- parameters: ?1 from this number, ?2 below this number, ?3 token, ?4 action, ?5 namespace, ?6 from (ms), ?7 before
-- (ms), ?8 limit.
SELECT id, at, token_id, caller, address, action, request, namespace, request_id, times, status, completed_at, reason,
    before_json, after_json
FROM audit
WHERE id >= ?1 AND id < ?2 AND (?3 = '' OR token_id = ?3) AND (?4 = '' OR action = ?4)
    AND (?5 = '' OR namespace = ?5) AND at >= ?6 AND at < ?7
ORDER BY id DESC LIMIT ?8

-- name: find_since
-- Finds the number of the first entry at or after an instant; no row: there is none.
-- parameters: ?1 at (ms).
SELECT id FROM audit WHERE at >= ?1 ORDER BY at, id LIMIT 1

-- name: delete_oldest
-- Deletes the oldest entries.
-- parameters: ?1 before (ms), ?2 how many at most.
DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < ?1 ORDER BY at LIMIT ?2)
