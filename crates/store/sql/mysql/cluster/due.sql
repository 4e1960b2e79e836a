-- Tasks of one partition by step of a span: how many rows were passed, and how many of them wait for their time. One short
-- range of the key, and so many rows at most.
-- 1 from (ms), 2 step (ms), 3 partition, 4 from (ms, inclusive), 5 until (ms, exclusive), 6 limit.
SELECT CAST((due_at - ?) DIV ? AS SIGNED) AS step, COUNT(*), CAST(SUM(state IN (1, 2, 7)) AS SIGNED)
FROM (
    SELECT due_at, state FROM task FORCE INDEX (PRIMARY)
    WHERE partition_no = ? AND due_at >= ? AND due_at < ?
    ORDER BY due_at, id LIMIT ?
) AS passed
GROUP BY step ORDER BY step
