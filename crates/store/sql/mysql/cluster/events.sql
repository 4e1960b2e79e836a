-- Events, the newest first; an empty text is no condition. 1 below this number, 2 and 3 kind, 4 and 5 engine, 6 from (ms),
-- 7 before (ms), 8 limit.
SELECT id, at, kind, event_key, engine, text, details
FROM event FORCE INDEX (PRIMARY)
WHERE id < ? AND (? = '' OR kind = ?) AND (? = '' OR engine = ?) AND at >= ? AND at < ?
ORDER BY id DESC LIMIT ?
