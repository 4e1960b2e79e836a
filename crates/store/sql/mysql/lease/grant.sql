-- What executors are handed, locked until the end of the transaction, and read before the move.
-- 1 the places (JSON: [number, partition, due_at (ms), id], in the order of the key).
SELECT wanted.nth, task.due_at, namespace, queue, state, fence, attempt, task_id, task_version, max_attempts, kind,
    priority, payload_is_json, COALESCE(task.payload, body.payload), timeout_ms, traceparent, place_due_at,
    labels, execute_at
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at AND task.id = wanted.id
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
FOR UPDATE /*!80001 OF task, body */
