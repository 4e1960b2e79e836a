-- Tasks that a walk passed while they were unfinished: those that still are, as they are now; columns as in scan.sql.
-- 1 the places (JSON: [number, partition, due_at (ms), id], in the order of the key).
SELECT task.id, place_due_at, task.due_at, fence, namespace, queue, priority, task_id, task_version, execute_at,
    deadline_ms, state, fired_at, attempt, demands, kind, payload_is_json, payload, max_attempts,
    timeout_ms, labels, traceparent
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at AND task.id = wanted.id
    AND task.state NOT IN (8, 9, 10, 11)
