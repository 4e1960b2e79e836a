-- Whole rows at their new place. For each row: the columns in their order.
INSERT INTO task (
    partition_no, due_at, id, namespace, task_id, task_version, queue, kind, priority, state, fence, attempt,
    max_attempts, execute_at, fired_at, created_at, updated_at, keep_until, place_due_at, timeout_ms,
    deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log, result_code, result_msg, result_is_json, result_body, last_error, payload_is_json, payload,
    history
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
