-- How far one look along the due times goes in a partition: the last of so many tasks; none: to the end of the range.
-- 1 partition, 2 due from (ms), 3 due before (ms), 4 or due at (ms) and 5 below this id, 6 tasks to skip.
SELECT due_at, id FROM task FORCE INDEX (PRIMARY)
WHERE partition_no = ? AND due_at >= ? AND (due_at < ? OR (due_at = ? AND id < ?))
ORDER BY partition_no DESC, due_at DESC, id DESC LIMIT 1 OFFSET ?
