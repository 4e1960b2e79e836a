-- Successes whose time is over, the longest over first. ?1 over since (ms, inclusive), ?2 now (ms), ?3 limit.
SELECT id, namespace, queue, state FROM task WHERE keep_until >= ?1 AND keep_until <= ?2 AND state = 8
ORDER BY keep_until LIMIT ?3
