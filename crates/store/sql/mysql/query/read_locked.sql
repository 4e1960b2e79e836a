-- Whole tasks, locked until the end of the transaction. Parameters and answers as in read.sql. Each row is the latest
-- one, not one of a snapshot: a task that moved in time while this waited for it is not found, and the transaction is
-- to be run again.
SELECT STRAIGHT_JOIN
    task.id, task.partition_no, task.namespace, task.task_id, task.task_version, queue, kind, priority, state, fence,
    attempt, max_attempts, execute_at, task.due_at, fired_at, created_at, updated_at, keep_until, place_due_at,
    timeout_ms, deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log, result_code, result_msg, result_is_json, result_body, last_error, payload_is_json,
    COALESCE(task.payload, body.payload), history, wanted.nth
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = wanted.partition_no AND moved.id = wanted.id
JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = COALESCE(moved.due_at, wanted.due_at)
    AND task.id = wanted.id
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
FOR UPDATE /*!80001 OF moved, task, body */
