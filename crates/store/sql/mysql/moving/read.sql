-- Whole rows as they stand, each with its long payload or NULL after its columns: one snapshot.
-- 1 the places (JSON: [number, partition, due_at (ms), id]).
SELECT
    task.partition_no, task.due_at, task.id, task.namespace, task.task_id, task.task_version, task.queue,
    task.kind, task.priority, task.state, task.fence, task.attempt, task.max_attempts, task.execute_at,
    task.fired_at, task.created_at, task.updated_at, task.keep_until, task.place_due_at, task.timeout_ms,
    task.deadline_ms, task.lease_executor, task.lease_since, task.lease_until, task.cancel_requested,
    task.retry, task.labels, task.traceparent, task.demands, task.progress, task.log, task.result_code, task.result_msg,
    task.result_is_json, task.result_body, task.last_error, task.payload_is_json, task.payload, task.history,
    body.payload
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at AND task.id = wanted.id
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
