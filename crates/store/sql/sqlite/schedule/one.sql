-- One schedule. ?1 namespace, ?2 name.
SELECT id, namespace, name, revision, step, body, progress, wake_at, created_at, updated_at, updated_by
FROM schedule WHERE namespace = ?1 AND name = ?2
