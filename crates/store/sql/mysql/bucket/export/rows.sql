-- Whole tasks of task_gone that may be forgotten now or later, for the archive, in the order of the key.
-- Parameters: after (partition, partition, due_at, partition, due_at, id; exclusive), rows.
SELECT STRAIGHT_JOIN
    task.id, task.partition_no, task.namespace, task.task_id, task.task_version, queue, kind, priority, state, fence,
    attempt, max_attempts, execute_at, task.due_at, fired_at, created_at, updated_at, keep_until, place_due_at,
    timeout_ms, deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log, result_code, result_msg, result_is_json, result_body, last_error, payload_is_json,
    COALESCE(task.payload, body.payload), history
FROM task_gone AS task
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
WHERE (task.partition_no > ?
        OR (task.partition_no = ? AND task.due_at > ?)
        OR (task.partition_no = ? AND task.due_at = ? AND task.id > ?))
    AND task.state IN (9, 10, 11)
ORDER BY task.partition_no, task.due_at, task.id LIMIT ?
