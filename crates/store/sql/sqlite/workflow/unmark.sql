-- Deletes a mark. ?1 id.
DELETE FROM workflow_mark WHERE id = ?1
