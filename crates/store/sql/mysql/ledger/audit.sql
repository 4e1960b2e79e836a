-- The same account, its tallies counted from the rows: reads every task. Answers as books.sql.
SELECT name, CAST(SUM(value) AS SIGNED), NULL, NULL, NULL FROM counters GROUP BY name
UNION ALL
SELECT NULL, COUNT(*), namespace, queue, state FROM task GROUP BY namespace, queue, state
