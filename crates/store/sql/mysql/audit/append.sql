-- Appends an entry; the statement answers its number as the insert id. 1 at (ms), 2 token, 3 caller, 4 address,
-- 5 action, 6 request, 7 namespace, 8 request id, 9 times, 10 status, 11 completed at (ms), 12 reason, 13 before (JSON),
-- 14 after (JSON), 15 key. One whose key is there already changes nothing, and its number is answered.
INSERT INTO audit (at, token_id, caller, address, action, request, namespace, request_id, times, status, completed_at,
    reason, before_json, after_json, entry_key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id)
