-- Forgets the oldest events. 1 before (ms), 2 how many at most.
DELETE FROM event WHERE at < ? ORDER BY at LIMIT ?
