-- The same account, its tallies counted from the rows: reads every task. Copies of partitions that are not here do
-- not count. Answers as books.sql.
SELECT name, CAST(SUM(value) AS SIGNED), NULL, NULL, NULL, NULL FROM counters GROUP BY name
UNION ALL
SELECT NULL, COUNT(*), task.namespace, task.queue, task.state, CAST(SUM(CASE
    WHEN task.lease_until IS NOT NULL OR task.keep_until IS NOT NULL THEN 0
    WHEN task.payload_is_json >= 2 THEN CAST(SUBSTRING_INDEX(task.payload, ' ', 1) AS SIGNED)
    ELSE COALESCE(LENGTH(task.payload), LENGTH(body.payload), 0) END) AS SIGNED)
FROM task
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
WHERE task.partition_no IN (SELECT hosted.partition_no FROM hosted WHERE hosted.state IN (1, 2))
GROUP BY task.namespace, task.queue, task.state
