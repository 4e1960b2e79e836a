-- What a batch takes out of the account.
-- FORCE INDEX: after a swap the server knows nothing of how many rows there are.
-- Only of partitions that are here: the others took their account along.
-- Parameters: after (partition, partition, due_at, partition, due_at, id; exclusive),
-- up to (the same six; inclusive), now (ms).
SELECT namespace, queue, state, COUNT(*) FROM task_gone FORCE INDEX (PRIMARY)
WHERE (partition_no > ?
        OR (partition_no = ? AND due_at > ?)
        OR (partition_no = ? AND due_at = ? AND id > ?))
    AND (partition_no < ?
        OR (partition_no = ? AND due_at < ?)
        OR (partition_no = ? AND due_at = ? AND id <= ?))
    AND state IN (9, 10, 11) AND keep_until <= ?
    AND partition_no IN (SELECT hosted.partition_no FROM hosted WHERE hosted.state IN (1, 2))
GROUP BY namespace, queue, state
