-- Forgets the oldest events beyond so many. ?1 how many may stay, ?2 how many go at most.
DELETE FROM event WHERE id IN (
    SELECT id FROM event WHERE id <= (SELECT id FROM event ORDER BY id DESC LIMIT 1 OFFSET ?1) ORDER BY id LIMIT ?2
)
