-- The same account, its tallies counted from the rows: reads every task. Copies of partitions that are not here do
-- not count. Answers as books.sql.
SELECT name, CAST(SUM(value) AS SIGNED), NULL, NULL, NULL FROM counters GROUP BY name
UNION ALL
SELECT NULL, COUNT(*), namespace, queue, state FROM task
WHERE partition_no IN (SELECT hosted.partition_no FROM hosted WHERE hosted.state IN (1, 2))
GROUP BY namespace, queue, state
