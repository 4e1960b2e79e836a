-- Tasks of one partition that wait, by step of a span that begins at the present or later: one short range of the index, and
-- so many tasks at most.
-- ?1 partition, ?2 from (ms, inclusive), ?3 until (ms, exclusive), ?4 step (ms), ?5 limit.
SELECT (wait_at - ?2) / ?4 AS step, count(*)
FROM (
    SELECT wait_at FROM task
    WHERE partition = ?1 AND wait_at >= ?2 AND wait_at < ?3
    ORDER BY wait_at LIMIT ?5
)
GROUP BY step ORDER BY step
