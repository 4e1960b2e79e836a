-- How far one look along the due times goes in a partition, the earliest first: the last of so many tasks; none: to the end of
-- the range.
-- 1 partition, 2 due after (ms), 3 or due at (ms) and 4 from this id on, 5 due before (ms), 6 or due at (ms) and 7 below this id, 8 tasks to skip.
SELECT due_at, id FROM task FORCE INDEX (PRIMARY)
WHERE partition_no = ? AND (due_at > ? OR (due_at = ? AND id >= ?)) AND (due_at < ? OR (due_at = ? AND id < ?))
ORDER BY partition_no, due_at, id LIMIT 1 OFFSET ?
