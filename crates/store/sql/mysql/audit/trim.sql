-- Forgets the oldest entries. 1 before (ms), 2 how many at most.
DELETE FROM audit WHERE at < ? ORDER BY at LIMIT ?
