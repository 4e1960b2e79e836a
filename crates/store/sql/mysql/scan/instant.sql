-- The rest of the tasks that are due at one instant, as scan.sql: in a statement of its own, because a condition on
-- (due_at, id) would not be a range of the key, and an instant may have a hundred thousand tasks.
-- 1 partition, 2 the instant (ms), 3 after this id, 4 limit.
SELECT id, place_due_at, due_at, fence, namespace, queue, priority, task_id, task_version, execute_at, deadline_ms,
    state, fired_at, attempt, demands, kind, payload_is_json, payload, max_attempts,
    timeout_ms, labels, traceparent
FROM task FORCE INDEX (PRIMARY)
WHERE partition_no = ? AND due_at = ? AND id > ? AND state IN (1, 2, 3, 6, 7)
ORDER BY id LIMIT ?
