-- What of a dropped bucket the account still counts: belongs to a count of the rows; at last the bytes of payloads that wait.
-- FORCE INDEX: after a swap the server knows nothing of how many rows there are.
-- Only of partitions that are here: the others took their account along.
-- Parameters: after (partition, partition, due_at, partition, due_at, id; exclusive).
SELECT namespace, queue, state, COUNT(*), CAST(SUM(CASE
    WHEN lease_until IS NOT NULL OR keep_until IS NOT NULL THEN 0
    WHEN payload_is_json >= 2 THEN CAST(SUBSTRING_INDEX(payload, ' ', 1) AS SIGNED)
    WHEN payload IS NOT NULL THEN LENGTH(payload)
    ELSE (SELECT LENGTH(body.payload) FROM body WHERE body.partition_no = task_gone.partition_no AND body.id = task_gone.id)
END) AS SIGNED)
FROM task_gone FORCE INDEX (PRIMARY)
WHERE (partition_no > ?
        OR (partition_no = ? AND due_at > ?)
        OR (partition_no = ? AND due_at = ? AND id > ?))
    AND partition_no IN (SELECT hosted.partition_no FROM hosted WHERE hosted.state IN (1, 2))
GROUP BY namespace, queue, state
