-- The newest of the dead of a namespace below an id, or NULL. ?1 namespace, ?2 id.
SELECT max(id) FROM task WHERE state = 9 AND namespace = ?1 AND id < ?2
