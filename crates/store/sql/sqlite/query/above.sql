-- The oldest task above an id, or NULL. ?1 id.
SELECT min(id) FROM task WHERE id > ?1
