-- Tasks of a queue with labels, in a range of ids; those of a bucket that is being dropped, too: some may come back. After
-- hold.sql. 1 from this id, 2 to this id (inclusive), 3 namespace, 4 queue, 5 the same.
SELECT STRAIGHT_JOIN registry.id, registry.partition_no, COALESCE(task.labels, task_gone.labels)
FROM registry FORCE INDEX (registry_newest)
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = registry.partition_no AND moved.id = registry.id
LEFT JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = registry.partition_no AND task.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task.id = registry.id
LEFT JOIN task_gone FORCE INDEX (PRIMARY)
    ON task_gone.partition_no = registry.partition_no AND task_gone.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task_gone.id = registry.id
WHERE registry.id >= ? AND registry.id <= ? AND registry.namespace = ?
    AND (task.queue = ? AND task.labels IS NOT NULL OR task_gone.queue = ? AND task_gone.labels IS NOT NULL)
ORDER BY registry.id LIMIT 1000000
