-- The versions of one caller's id, the highest first. ?1 namespace, ?2 task_id, ?3 limit.
SELECT * FROM whole_task WHERE namespace = ?1 AND task_id = ?2 ORDER BY task_version DESC LIMIT ?3
