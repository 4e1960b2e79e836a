-- The registry's entries of a batch; not one that has been given to another task since.
-- FORCE INDEX: after a swap the server knows nothing of how many rows there are.
-- Parameters: after (partition, partition, due_at, partition, due_at, id; exclusive),
-- up to (the same six; inclusive), now (ms).
DELETE registry FROM task_gone FORCE INDEX (PRIMARY)
STRAIGHT_JOIN registry FORCE INDEX (PRIMARY) ON registry.partition_no = task_gone.partition_no
    AND registry.namespace = task_gone.namespace AND registry.task_id = task_gone.task_id
    AND registry.task_version = task_gone.task_version AND registry.id = task_gone.id
WHERE (task_gone.partition_no > ?
        OR (task_gone.partition_no = ? AND task_gone.due_at > ?)
        OR (task_gone.partition_no = ? AND task_gone.due_at = ? AND task_gone.id > ?))
    AND (task_gone.partition_no < ?
        OR (task_gone.partition_no = ? AND task_gone.due_at < ?)
        OR (task_gone.partition_no = ? AND task_gone.due_at = ? AND task_gone.id <= ?))
    AND task_gone.state IN (9, 10, 11) AND task_gone.keep_until <= ?
