-- The newest task that is entered under a label, below an id, or NULL. ?1 namespace, ?2 label (key=value), ?3 id.
SELECT max(id) FROM task_label WHERE namespace = ?1 AND label = ?2 AND id < ?3
