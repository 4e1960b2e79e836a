-- The tasks of a namespace, in the order of its ids, whatever their state; at last the bytes of their payloads, and whether they
-- are asked to stop.
-- ?1 namespace, ?2 from this task_id, ?3 from this task_version (inclusive), ?4 limit.
SELECT id, partition, due_at, task_id, task_version, queue, state, fence,
    CASE
        WHEN payload_is_json >= 2 THEN CAST(CAST(payload AS TEXT) AS INTEGER)
        WHEN payload IS NOT NULL THEN length(payload)
        ELSE (SELECT length(body.payload) FROM body WHERE body.id = task.id) END,
    cancel_requested
FROM task
WHERE namespace = ?1 AND task_id >= ?2 AND (task_id > ?2 OR task_version >= ?3)
ORDER BY task_id, task_version LIMIT ?4
