-- What failed and stands, by the task. In the catalog. 1 bulk, 2 above this id, 3 limit.
SELECT task_ref, failed_at, error FROM bulk_failure WHERE bulk_id = ? AND id > ? ORDER BY id LIMIT ?
