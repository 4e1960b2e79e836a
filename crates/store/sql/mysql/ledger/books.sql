-- The running account of this database, counters and tallies in one statement, hence of one instant.
-- Answers a counter's name and its value, or NULL, the value, namespace, queue, state code, bytes of payloads that wait.
SELECT name, CAST(SUM(value) AS SIGNED), NULL, NULL, NULL, NULL FROM counters GROUP BY name
UNION ALL
SELECT NULL, CAST(SUM(tasks) AS SIGNED), namespace, queue, state, CAST(SUM(bytes) AS SIGNED)
FROM books GROUP BY namespace, queue, state
