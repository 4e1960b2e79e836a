-- The walk of retention: tasks of one partition after a place, in the order of the key, whatever their state, so that
-- the limit bounds the work. Answers the place and whether its time is over.
-- 1 now (ms), 2 partition, 3 due_at (ms), 4 partition, 5 due_at (ms), 6 after this id, 7 limit.
SELECT partition_no, due_at, id, state IN (8, 9, 10, 11) AND keep_until <= ?
FROM task
WHERE (partition_no = ? AND due_at > ?) OR (partition_no = ? AND due_at = ? AND id > ?)
ORDER BY partition_no, due_at, id LIMIT ?
