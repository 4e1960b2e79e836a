-- The newest event beyond so many; no row: there are no more. 1 how many may stay.
SELECT id FROM event ORDER BY id DESC LIMIT 1 OFFSET ?
