-- How many stand how. 1 now (ms).
SELECT wish, CAST(alive_until <= ? AS SIGNED) AS silent, COUNT(*) FROM executor WHERE gone <> 2 GROUP BY wish, silent
