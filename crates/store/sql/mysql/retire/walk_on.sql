-- The walk of retention, from the first task of the next partition on: as walk.sql. 1 now (ms), 2 partition, 3 limit.
SELECT partition_no, due_at, id, state IN (8, 9, 10, 11) AND keep_until <= ?
FROM task
WHERE partition_no > ?
ORDER BY partition_no, due_at, id LIMIT ?
