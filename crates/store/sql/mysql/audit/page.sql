-- Entries of a range of numbers, the newest first; an empty text is no condition. 1 from this number, 2 below this
-- number, 3 and 4 token, 5 and 6 action, 7 and 8 namespace, 9 from (ms), 10 before (ms), 11 limit.
SELECT id, at, token_id, caller, address, action, request, namespace, request_id, times, status, completed_at, reason,
    before_json, after_json
FROM audit
WHERE id >= ? AND id < ? AND (? = '' OR token_id = ?) AND (? = '' OR action = ?)
    AND (? = '' OR namespace = ?) AND at >= ? AND at < ?
ORDER BY id DESC LIMIT ?
