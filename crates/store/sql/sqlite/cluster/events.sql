-- Events, the newest first; an empty text is no condition. Along the numbers: hence +at. ?1 below this number, ?2 kind, ?3 engine, ?4 from (ms),
-- ?5 before (ms), ?6 limit.
SELECT id, at, kind, event_key, engine, text, details
FROM event
WHERE id < ?1 AND (?2 = '' OR kind = ?2) AND (?3 = '' OR engine = ?3) AND +at >= ?4 AND +at < ?5
ORDER BY id DESC LIMIT ?6
