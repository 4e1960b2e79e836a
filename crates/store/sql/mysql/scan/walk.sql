-- Tasks of one partition after a place, whatever their state, in order: what may be passed for good.
-- 1 partition, 2 due_at (ms), 3 partition, 4 due_at (ms), 5 after this id, 6 limit.
SELECT due_at, id, state IN (8, 9, 10, 11)
FROM task FORCE INDEX (PRIMARY)
WHERE (partition_no = ? AND due_at > ?) OR (partition_no = ? AND due_at = ? AND id > ?)
ORDER BY partition_no, due_at, id LIMIT ?
