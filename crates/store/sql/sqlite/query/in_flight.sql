-- Tasks in flight after a position, the first to end first, without histories.
-- ?1 after this end (ms), ?2 and this id, ?3 limit.
SELECT id, partition, namespace, task_id, task_version, queue, kind, priority, state, fence, attempt,
    max_attempts, execute_at, due_at, fired_at, created_at, updated_at, keep_until, place_due_at, timeout_ms,
    deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log,
    result_code, result_msg, result_is_json, result_body, last_error, payload_is_json, payload, ''
FROM whole_task WHERE lease_until >= ?1 AND (lease_until > ?1 OR id > ?2)
ORDER BY lease_until, id LIMIT ?3
