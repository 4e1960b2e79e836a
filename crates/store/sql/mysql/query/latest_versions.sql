-- The highest version of each of a few ids of callers. 1 the ids (JSON: [partition, task_id]), 2 namespace.
SELECT STRAIGHT_JOIN
    task.id, task.partition_no, task.namespace, task.task_id, task.task_version, queue, kind, priority, state, fence,
    attempt, max_attempts, execute_at, task.due_at, fired_at, created_at, updated_at, keep_until, place_due_at,
    timeout_ms, deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log, result_code, result_msg, result_is_json, result_body, last_error, payload_is_json,
    COALESCE(task.payload, body.payload), history
FROM JSON_TABLE(?, '$[*]' COLUMNS (partition_no INT PATH '$[0]', task_id BIGINT PATH '$[1]')) AS wanted
JOIN registry FORCE INDEX (PRIMARY) ON registry.partition_no = wanted.partition_no AND registry.namespace = ?
    AND registry.task_id = wanted.task_id
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = registry.partition_no AND moved.id = registry.id
JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = registry.partition_no AND task.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task.id = registry.id
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
WHERE NOT EXISTS (
    SELECT 1 FROM registry AS newer FORCE INDEX (PRIMARY)
    WHERE newer.partition_no = registry.partition_no AND newer.namespace = registry.namespace
        AND newer.task_id = registry.task_id AND newer.task_version > registry.task_version
)
