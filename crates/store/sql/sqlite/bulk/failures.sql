-- What failed and stands, by the task. ?1 bulk, ?2 above this id, ?3 limit.
SELECT task_ref, failed_at, error FROM bulk_failure WHERE bulk_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3
