-- The newest chunks of this database that may have tasks of a queue, down from one: those of the queue, and those of which is said
-- that any may be there. 1 namespace, 2 queue (empty: of any), 3 chunk, 4 and 5 kind (NULL: any), 6 limit, 7 namespace, 8 chunk,
-- 9 limit, 10 limit.
(
    SELECT chunk FROM task_chunk FORCE INDEX (PRIMARY)
    WHERE namespace = ? AND queue = ? AND chunk <= ? AND (? IS NULL OR kind = ?)
    GROUP BY chunk ORDER BY chunk DESC LIMIT ?
) UNION (
    SELECT chunk FROM task_chunk FORCE INDEX (PRIMARY)
    WHERE namespace = ? AND queue = '*' AND chunk <= ?
    GROUP BY chunk ORDER BY chunk DESC LIMIT ?
)
ORDER BY chunk DESC LIMIT ?
