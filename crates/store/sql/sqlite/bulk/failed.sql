-- What failed, in the place of what stood for the same task; while there are fewer than are kept.
-- ?1 bulk, ?2 id of the task, ?3 reference, ?4 at (ms), ?5 error, ?6 how many are kept.
INSERT INTO bulk_failure (bulk_id, id, task_ref, failed_at, error)
SELECT ?1, ?2, ?3, ?4, ?5 WHERE (SELECT count(*) FROM bulk_failure WHERE bulk_id = ?1) < ?6
ON CONFLICT (bulk_id, id) DO UPDATE SET failed_at = excluded.failed_at, error = excluded.error
