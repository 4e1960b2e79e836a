-- The highest version that stands under a caller's id.
-- ?1 namespace, ?2 task_id. Answers id, task_version, state, demands (JSON, with its key) or NULL; no row: the id is free.
SELECT id, task_version, state, demands FROM task
WHERE namespace = ?1 AND task_id = ?2 ORDER BY task_version DESC LIMIT 1
