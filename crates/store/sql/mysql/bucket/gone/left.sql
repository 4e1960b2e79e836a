-- One row if there is anything left to settle.
-- FORCE INDEX: after a swap the server knows nothing of how many rows there are.
-- Parameters: after (partition, partition, due_at, partition, due_at, id; exclusive).
SELECT 1 FROM task_gone FORCE INDEX (PRIMARY)
WHERE (partition_no > ?
        OR (partition_no = ? AND due_at > ?)
        OR (partition_no = ? AND due_at = ? AND id > ?))
LIMIT 1
