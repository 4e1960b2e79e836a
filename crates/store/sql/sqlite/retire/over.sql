-- Finished tasks whose time is over, the longest over first. ?1 now (ms), ?2 limit.
SELECT id, namespace, queue, state FROM task WHERE keep_until <= ?1 ORDER BY keep_until LIMIT ?2
