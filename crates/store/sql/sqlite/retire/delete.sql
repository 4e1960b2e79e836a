-- Forgets a finished task; never a success, which becomes stopped first. ?1 id.
DELETE FROM task WHERE id = ?1 AND state IN (9, 10, 11)
