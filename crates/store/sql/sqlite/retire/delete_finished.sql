-- Deletes a finished task that somebody deletes, as it was seen. ?1 id, ?2 fence, ?3 its state: one of 8, 9, 10 and 11.
DELETE FROM task WHERE id = ?1 AND fence = ?2 AND state = ?3 AND state IN (8, 9, 10, 11) RETURNING namespace, queue
