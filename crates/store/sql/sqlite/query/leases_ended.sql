-- Tasks in flight whose lease ended, the longest ended first, without histories. ?1 now (ms), ?2 limit.
SELECT id, partition, namespace, task_id, task_version, queue, kind, priority, state, fence, attempt,
    max_attempts, execute_at, due_at, fired_at, created_at, updated_at, keep_until, place_due_at, timeout_ms,
    deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log,
    result_code, result_msg, result_is_json, result_body, last_error, payload_is_json, payload, ''
FROM whole_task WHERE lease_until <= ?1 ORDER BY lease_until LIMIT ?2
