-- Forgets the oldest entries. ?1 before (ms), ?2 how many at most.
DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < ?1 ORDER BY at LIMIT ?2)
