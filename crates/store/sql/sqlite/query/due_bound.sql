-- How far one look along the due times of what waits goes in a partition: the last of so many tasks; none: to the end of the
-- range. ?1 partition, ?2 due from (ms), ?3 due to (ms) and ?4 below this id there, ?5 tasks to skip.
SELECT wait_at, id FROM task
WHERE partition = ?1 AND wait_at >= ?2 AND wait_at <= ?3 AND (wait_at < ?3 OR id < ?4)
ORDER BY wait_at DESC, id DESC LIMIT 1 OFFSET ?5
