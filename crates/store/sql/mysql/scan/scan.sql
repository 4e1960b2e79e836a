-- Waiting tasks of one partition in order of (due_at, id).
-- 1 partition, 2 due after (ms, exclusive), 3 due until (ms, inclusive), 4 limit.
SELECT id, place_due_at, due_at, fence, namespace, queue, priority, task_id, task_version, execute_at, deadline_ms,
    state, fired_at, attempt, demands, kind, payload_is_json, payload, max_attempts,
    timeout_ms, labels, traceparent
FROM task FORCE INDEX (PRIMARY)
WHERE partition_no = ? AND due_at > ? AND due_at <= ? AND state IN (1, 2, 3, 6, 7)
ORDER BY due_at, id LIMIT ?
