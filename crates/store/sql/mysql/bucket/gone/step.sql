-- The last row of the next batch; none: the batch is the rest.
-- FORCE INDEX: after a swap the server knows nothing of how many rows there are.
-- Parameters: after (partition, partition, due_at, partition, due_at, id; exclusive), rows to skip.
SELECT partition_no, due_at, id FROM task_gone FORCE INDEX (PRIMARY)
WHERE (partition_no > ?
        OR (partition_no = ? AND due_at > ?)
        OR (partition_no = ? AND due_at = ? AND id > ?))
ORDER BY partition_no, due_at, id LIMIT 1 OFFSET ?
