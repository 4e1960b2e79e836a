-- How many stand how. ?1 now (ms).
SELECT wish, alive_until <= ?1, count(*) FROM executor WHERE gone <> 2 GROUP BY 1, 2
