-- What of a dropped bucket the account still counts: belongs to a count of the rows.
-- FORCE INDEX: after a swap the server knows nothing of how many rows there are.
-- Parameters: after (partition, partition, due_at, partition, due_at, id; exclusive).
SELECT namespace, queue, state, COUNT(*) FROM task_gone FORCE INDEX (PRIMARY)
WHERE (partition_no > ?
        OR (partition_no = ? AND due_at > ?)
        OR (partition_no = ? AND due_at = ? AND id > ?))
GROUP BY namespace, queue, state
