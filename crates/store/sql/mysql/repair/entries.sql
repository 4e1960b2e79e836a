-- A page of the registry of one partition, in order; 1 where an entry leads to no task: neither at the place of the
-- reference, nor where it has moved, nor in the bucket that is being dropped. One statement, one snapshot.
-- Parameters: after (partition, namespace, partition, namespace, task_id, partition, namespace, task_id, task_version;
-- exclusive), limit.
SELECT CAST(entry.namespace AS CHAR), entry.task_id, entry.task_version, entry.id,
    CAST(task.id IS NULL AND elsewhere.id IS NULL AND task_gone.id IS NULL AS SIGNED)
FROM (
    SELECT partition_no, namespace, task_id, task_version, id, due_at FROM registry FORCE INDEX (PRIMARY)
    WHERE (partition_no = ? AND namespace > ?)
        OR (partition_no = ? AND namespace = ? AND task_id > ?)
        OR (partition_no = ? AND namespace = ? AND task_id = ? AND task_version > ?)
    ORDER BY partition_no, namespace, task_id, task_version LIMIT ?
) AS entry
LEFT JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = entry.partition_no AND task.due_at = entry.due_at AND task.id = entry.id
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = entry.partition_no AND moved.id = entry.id
LEFT JOIN task elsewhere FORCE INDEX (PRIMARY)
    ON elsewhere.partition_no = moved.partition_no AND elsewhere.due_at = moved.due_at
    AND elsewhere.id = moved.id
LEFT JOIN task_gone FORCE INDEX (PRIMARY) ON task_gone.partition_no = entry.partition_no
    AND task_gone.due_at = COALESCE(moved.due_at, entry.due_at) AND task_gone.id = entry.id
ORDER BY entry.namespace, entry.task_id, entry.task_version
