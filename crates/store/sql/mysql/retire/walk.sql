-- The walk of retention: tasks of one partition after a place, in the order of the key, whatever their state, so that
-- the limit bounds the work. Answers the place and whether retention has something to do there: a success whose time is
-- over, or another finished task whose time is over and that is due after an instant.
-- 1 that instant (ms), 2 now (ms), 3 partition, 4 due_at (ms), 5 partition, 6 due_at (ms), 7 after this id, 8 limit.
SELECT partition_no, due_at, id, (state = 8 OR (state IN (9, 10, 11) AND due_at > ?)) AND keep_until <= ?
FROM task FORCE INDEX (PRIMARY)
WHERE (partition_no = ? AND due_at > ?) OR (partition_no = ? AND due_at = ? AND id > ?)
ORDER BY partition_no, due_at, id LIMIT ?
