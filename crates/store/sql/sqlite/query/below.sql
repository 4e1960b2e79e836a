-- The newest task below an id, or NULL. ?1 id.
SELECT max(id) FROM task WHERE id < ?1
