-- Where the tasks of a batch could be looked up.
-- FORCE INDEX: after a swap the server knows nothing of how many rows there are.
-- Parameters: after (partition, partition, due_at, partition, due_at, id; exclusive),
-- up to (the same six; inclusive), now (ms).
DELETE lookup FROM task_gone FORCE INDEX (PRIMARY)
STRAIGHT_JOIN lookup FORCE INDEX (lookup_of) ON lookup.partition_no = task_gone.partition_no AND lookup.id = task_gone.id
WHERE (task_gone.partition_no > ?
        OR (task_gone.partition_no = ? AND task_gone.due_at > ?)
        OR (task_gone.partition_no = ? AND task_gone.due_at = ? AND task_gone.id > ?))
    AND (task_gone.partition_no < ?
        OR (task_gone.partition_no = ? AND task_gone.due_at < ?)
        OR (task_gone.partition_no = ? AND task_gone.due_at = ? AND task_gone.id <= ?))
    AND task_gone.state IN (9, 10, 11) AND task_gone.keep_until <= ?
