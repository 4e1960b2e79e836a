-- New tasks, scheduled. For each row: 1 partition, 2 due_at (ms), 3 id, 4 namespace, 5 task_id, 6 task_version,
-- 7 queue, 8 kind, 9 priority, 10 max_attempts, 11 execute_at (ms), 12 due_at again, as the reference has it (ms),
-- 13 now (ms), 14 now (ms), 15 timeout_ms or NULL, 16 deadline_ms or NULL, 17 retry (JSON) or NULL (default),
-- 18 labels (JSON) or NULL, 19 traceparent or NULL, 20 whether the payload is JSON, 21 payload, or NULL when it goes
-- to `body`, 22 the first history line, 23 demands (JSON) or NULL.
INSERT INTO task (
    partition_no, due_at, id, namespace, task_id, task_version, queue, kind, priority, max_attempts, execute_at,
    place_due_at, created_at, updated_at, timeout_ms, deadline_ms, retry, labels, traceparent, payload_is_json,
    payload, history, demands, state, fence, attempt, cancel_requested
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, 1, 0, 0)
