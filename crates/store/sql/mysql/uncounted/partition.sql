-- The bytes of the payloads of one partition's tasks that wait, by queue. 1 partition.
-- Answers namespace, queue, bytes.
SELECT task.namespace, task.queue, CAST(SUM(CASE
    WHEN task.payload_is_json >= 2 THEN CAST(SUBSTRING_INDEX(task.payload, ' ', 1) AS SIGNED)
    ELSE COALESCE(LENGTH(task.payload), LENGTH(body.payload), 0) END) AS SIGNED)
FROM task
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
WHERE task.partition_no = ? AND task.lease_until IS NULL AND task.keep_until IS NULL
GROUP BY task.namespace, task.queue
