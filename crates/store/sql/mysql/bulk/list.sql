-- Operations of a namespace, the newest first. In the catalog. 1 namespace, 2 below this id, 3 limit.
SELECT id, namespace, step, state, body, progress, wake_at, created_at, created_by, updated_at
FROM bulk FORCE INDEX (bulk_of) WHERE namespace = ? AND id < ? ORDER BY id DESC LIMIT ?
