-- Search along the due times of one partition, the earliest first, without histories, inside a range that bounds the work.
-- 1 partition, 2 due after (ms), 3 or due at (ms) and 4 from this id on, 5 due before (ms), 6 or due at (ms) and 7 below this id;
-- each other condition holds only if it is not NULL, and is given twice: 8 and 9 namespace, 10 and 11 queue, 12 and 13 state
-- code, 14 and 15 kind, 16 and 17 a label as it stands in the text of all labels (the caller looks again: it may be in another's
-- value), 18 and 19 changed from (ms), 20 and 21 a text in its last error, 22 limit.
SELECT STRAIGHT_JOIN
    task.id, task.partition_no, task.namespace, task.task_id, task.task_version, queue, kind, priority, state, fence,
    attempt, max_attempts, execute_at, task.due_at, fired_at, created_at, updated_at, keep_until, place_due_at,
    timeout_ms, deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log, result_code, result_msg, result_is_json, result_body, last_error, payload_is_json,
    COALESCE(task.payload, body.payload), ''
FROM task FORCE INDEX (PRIMARY)
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
WHERE task.partition_no = ? AND (task.due_at > ? OR (task.due_at = ? AND task.id >= ?))
    AND (task.due_at < ? OR (task.due_at = ? AND task.id < ?))
    AND (? IS NULL OR task.namespace = ?)
    AND (? IS NULL OR queue = ?)
    AND (? IS NULL OR state = ?)
    AND (? IS NULL OR kind = ?)
    AND (? IS NULL OR INSTR(labels, ?) > 0)
    AND (? IS NULL OR updated_at >= ?)
    AND (? IS NULL OR LOCATE(CAST(? AS BINARY), CAST(last_error AS BINARY)) > 0)
ORDER BY task.partition_no, task.due_at, task.id LIMIT ?
