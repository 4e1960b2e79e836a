-- One operation. ?1 id.
SELECT id, namespace, step, state, body, progress, wake_at, created_at, created_by, updated_at
FROM bulk WHERE id = ?1
