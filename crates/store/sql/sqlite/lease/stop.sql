-- Marks a task in flight, so that its executor learns that it should stop; no move. ?1 id, ?2 now (ms).
UPDATE task SET cancel_requested = 1, updated_at = ?2 WHERE id = ?1 AND state IN (4, 5)
