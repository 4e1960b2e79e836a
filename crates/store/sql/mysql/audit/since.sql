-- The number of the first entry that is not older; no row: there is none. 1 at (ms).
SELECT id FROM audit WHERE at >= ? ORDER BY at, id LIMIT 1
