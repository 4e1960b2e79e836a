-- Forgets the oldest events. ?1 before (ms), ?2 how many at most.
DELETE FROM event WHERE id IN (SELECT id FROM event WHERE at < ?1 ORDER BY at LIMIT ?2)
