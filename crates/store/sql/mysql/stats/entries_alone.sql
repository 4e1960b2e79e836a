-- Entries of the registry, of one partition, that lead to no task: neither at the place of the reference, nor where it
-- has moved, nor in the bucket that is being dropped.
-- Parameters: partition.
SELECT COUNT(*) FROM registry
LEFT JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = registry.partition_no AND task.due_at = registry.due_at
    AND task.id = registry.id
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = registry.partition_no AND moved.id = registry.id
LEFT JOIN task elsewhere FORCE INDEX (PRIMARY)
    ON elsewhere.partition_no = moved.partition_no AND elsewhere.due_at = moved.due_at
    AND elsewhere.id = moved.id
LEFT JOIN task_gone FORCE INDEX (PRIMARY) ON task_gone.partition_no = registry.partition_no
    AND task_gone.due_at = COALESCE(moved.due_at, registry.due_at) AND task_gone.id = registry.id
WHERE registry.partition_no = ? AND task.id IS NULL AND elsewhere.id IS NULL AND task_gone.id IS NULL
