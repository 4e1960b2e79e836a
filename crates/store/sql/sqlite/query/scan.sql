-- Waiting tasks of one partition in order of (due_at, id).
-- ?1 partition, ?2 due until (ms, inclusive), ?3 due after (ms, exclusive), ?4 limit.
SELECT id, place_due_at, due_at, fence, namespace, queue, priority, task_id, task_version, execute_at, deadline_ms,
    state, fired_at, attempt, demands, kind, payload_is_json, payload, max_attempts,
    timeout_ms, labels, traceparent
FROM task
WHERE partition = ?1 AND wait_at <= ?2 AND wait_at > ?3
ORDER BY wait_at, id LIMIT ?4
