-- Tasks in a range of ids that are dead; those of a bucket that is being dropped, too: some may come back. After hold.sql.
-- 1 from this id, 2 to this id (inclusive).
SELECT STRAIGHT_JOIN registry.id, registry.partition_no, registry.namespace
FROM registry FORCE INDEX (registry_newest)
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = registry.partition_no AND moved.id = registry.id
LEFT JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = registry.partition_no AND task.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task.id = registry.id
LEFT JOIN task_gone FORCE INDEX (PRIMARY)
    ON task_gone.partition_no = registry.partition_no AND task_gone.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task_gone.id = registry.id
WHERE registry.id >= ? AND registry.id <= ? AND (task.state = 9 OR task_gone.state = 9)
ORDER BY registry.id LIMIT 1000000
