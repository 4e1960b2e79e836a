-- One version of one caller's id. ?1 namespace, ?2 task_id, ?3 limit (0 or 1), ?4 task_version.
SELECT * FROM whole_task WHERE namespace = ?1 AND task_id = ?2 AND task_version = ?4 LIMIT ?3
