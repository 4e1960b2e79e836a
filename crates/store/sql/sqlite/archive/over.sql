-- Whole tasks that are over, the longest over first. ?1 over after (ms, exclusive), ?2 now (ms), ?3 limit.
SELECT * FROM whole_task WHERE keep_until > ?1 AND keep_until <= ?2 AND state IN (9, 10, 11)
ORDER BY keep_until, id LIMIT ?3
