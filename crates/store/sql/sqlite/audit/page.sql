-- Entries of a range of numbers, the newest first; an empty text is no condition. ?1 from this number, ?2 below this
-- number, ?3 token, ?4 action, ?5 namespace, ?6 from (ms), ?7 before (ms), ?8 limit.
SELECT id, at, token_id, caller, address, action, request, namespace, request_id, times, status, completed_at, reason,
    before_json, after_json
FROM audit
WHERE id >= ?1 AND id < ?2 AND (?3 = '' OR token_id = ?3) AND (?4 = '' OR action = ?4)
    AND (?5 = '' OR namespace = ?5) AND at >= ?6 AND at < ?7
ORDER BY id DESC LIMIT ?8
