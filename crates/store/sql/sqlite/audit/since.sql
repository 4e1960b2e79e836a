-- The number of the first entry that is not older; no row: there is none. ?1 at (ms).
SELECT id FROM audit WHERE at >= ?1 ORDER BY at, id LIMIT 1
