-- The walk of retention, from the first task of the next partition on: as walk.sql.
-- 1 that instant (ms), 2 now (ms), 3 partition, 4 limit.
SELECT partition_no, due_at, id, (state = 8 OR (state IN (9, 10, 11) AND due_at > ?)) AND keep_until <= ?
FROM task FORCE INDEX (PRIMARY)
WHERE partition_no > ?
ORDER BY partition_no, due_at, id LIMIT ?
