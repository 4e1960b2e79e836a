-- Forgets events up to a number. 1 the number (inclusive), 2 how many at most.
DELETE FROM event WHERE id <= ? ORDER BY id LIMIT ?
