-- Deletes a task whatever its state: of a namespace that is being deleted. ?1 id.
DELETE FROM task WHERE id = ?1
