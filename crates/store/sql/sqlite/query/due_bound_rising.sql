-- How far one look along the due times of what waits goes in a partition, the earliest first: the last of so many tasks; none:
-- to the end of the range. ?1 partition, ?2 due from (ms) and ?3 from this id there, ?4 due to (ms) and ?5 below this id there,
-- ?6 tasks to skip.
SELECT wait_at, id FROM task
WHERE partition = ?1 AND wait_at >= ?2 AND wait_at <= ?4 AND (wait_at > ?2 OR id >= ?3) AND (wait_at < ?4 OR id < ?5)
ORDER BY wait_at, id LIMIT 1 OFFSET ?6
