-- Operations of a namespace, the newest first. ?1 namespace, ?2 below this id, ?3 limit.
SELECT id, namespace, step, state, body, progress, wake_at, created_at, created_by, updated_at
FROM bulk WHERE namespace = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3
