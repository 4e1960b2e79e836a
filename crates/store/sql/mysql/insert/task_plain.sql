-- As insert/task.sql, for tasks that ask for nothing that most do not ask for: no timeout_ms, deadline_ms, retry, labels,
-- traceparent or demands. Fewer parameters cost the server less. For each row: 1 partition, 2 due_at (ms), 3 id, 4 namespace,
-- 5 task_id, 6 task_version, 7 queue, 8 kind, 9 priority, 10 max_attempts, 11 execute_at (ms), 12 now (ms), 13 whether
-- the payload is JSON, 14 payload, or NULL when it goes to `body`, 15 the first history line.
INSERT INTO task (
    partition_no, due_at, id, namespace, task_id, task_version, queue, kind, priority, max_attempts, execute_at,
    created_at, payload_is_json, payload, history, place_due_at, updated_at, state, fence, attempt, cancel_requested
)
-- What stands further left has its value already.
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, due_at, created_at, 1, 1, 0, 0)
