-- Since when the nth of the tasks that are over and in no archive yet is over (ms), the longest over first; none: there
-- are no more than n. ?1 now (ms), ?2 n, from 0.
SELECT keep_until FROM task WHERE keep_until <= ?1 AND state IN (9, 10, 11) ORDER BY keep_until LIMIT 1 OFFSET ?2
