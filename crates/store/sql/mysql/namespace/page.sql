-- The tasks of a namespace in one partition, in the order of its ids, whatever their state.
-- 1 partition, 2 namespace, 3 from this task_id, 4 the same, 5 from this task_version (inclusive), 6 limit.
SELECT task_id, task_version, id, due_at FROM registry FORCE INDEX (PRIMARY)
WHERE partition_no = ? AND namespace = ? AND task_id >= ? AND (task_id > ? OR task_version >= ?)
ORDER BY task_id, task_version LIMIT ?
