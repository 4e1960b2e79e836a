-- The rest of the tasks that are due at one instant, as scan.sql: in a statement of its own, because SQLite does not
-- seek by (wait_at, id) > (?, ?) when the id is the row id, and an instant may have a hundred thousand tasks.
-- ?1 partition, ?2 the instant (ms), ?3 after this id, ?4 limit.
SELECT id, place_due_at, due_at, fence, namespace, queue, priority, task_id, task_version, execute_at, deadline_ms,
    state, fired_at, attempt, demands, kind, payload_is_json, payload, max_attempts,
    timeout_ms, labels, traceparent
FROM task
WHERE partition = ?1 AND wait_at = ?2 AND id > ?3
ORDER BY id LIMIT ?4
