-- Forgets a workflow. ?1 id.
DELETE FROM workflow WHERE id = ?1
