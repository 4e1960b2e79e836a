-- The chunks of tasks that stood before they were entered; of a bucket that is being dropped, too: some may come back.
-- 1 and 2 whether of any queue, 3 from this id, 4 to this id (inclusive).
INSERT IGNORE INTO task_chunk (namespace, queue, chunk, kind, slot, noted_at)
SELECT DISTINCT registry.namespace, IF(?, '', COALESCE(task.queue, task_gone.queue)), registry.id DIV 1024,
    IF(?, '', COALESCE(task.kind, task_gone.kind)), -1,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
FROM registry FORCE INDEX (registry_newest)
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = registry.partition_no AND moved.id = registry.id
LEFT JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = registry.partition_no AND task.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task.id = registry.id
LEFT JOIN task_gone FORCE INDEX (PRIMARY)
    ON task_gone.partition_no = registry.partition_no AND task_gone.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task_gone.id = registry.id
WHERE registry.id >= ? AND registry.id <= ? AND COALESCE(task.queue, task_gone.queue) IS NOT NULL
