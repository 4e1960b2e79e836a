-- Tasks that are over and in no archive yet: how many, counted no further than a bound, and since when the first of them
-- is over (ms). ?1 now (ms), ?2 bound.
SELECT count(*), min(keep_until) FROM (
    SELECT keep_until FROM task WHERE keep_until <= ?1 AND state IN (9, 10, 11) ORDER BY keep_until LIMIT ?2
)
