-- The schedules of a namespace by name. In the catalog. 1 namespace, 2 after this name, 3 limit.
SELECT id, namespace, name, revision, step, body, progress, wake_at, created_at, updated_at, updated_by
FROM schedule WHERE namespace = ? AND name > ? ORDER BY name LIMIT ?
