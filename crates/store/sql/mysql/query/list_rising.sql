-- Search, oldest first, without histories, inside a range of ids that bounds the work; in partitions that are here.
-- 1 below this id, 2 down to this id; each other condition holds only if it is not NULL, and is given twice:
-- 3 and 4 namespace, 5 and 6 queue, 7 and 8 state code, 9 and 10 kind, 11 and 12 due from (ms), 13 and 14 due before
-- (ms), 15 and 16 a label as it stands in the text of all labels (the caller looks again: it may be in another's
-- value), 17 and 18 changed from (ms), 19 and 20 a text in its last error, 21 limit.
SELECT STRAIGHT_JOIN
    task.id, task.partition_no, task.namespace, task.task_id, task.task_version, queue, kind, priority, state, fence,
    attempt, max_attempts, execute_at, task.due_at, fired_at, created_at, updated_at, keep_until, place_due_at,
    timeout_ms, deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log, result_code, result_msg, result_is_json, result_body, last_error, payload_is_json,
    COALESCE(task.payload, body.payload), ''
FROM registry FORCE INDEX (registry_newest)
JOIN (SELECT hosted.partition_no AS here_no FROM hosted FORCE INDEX (PRIMARY) WHERE hosted.state IN (1, 2)) AS here
    ON here.here_no = registry.partition_no
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = registry.partition_no AND moved.id = registry.id
JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = registry.partition_no AND task.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task.id = registry.id
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
WHERE registry.id < ? AND registry.id >= ?
    AND (? IS NULL OR task.namespace = ?)
    AND (? IS NULL OR queue = ?)
    AND (? IS NULL OR state = ?)
    AND (? IS NULL OR kind = ?)
    AND (? IS NULL OR task.due_at >= ?)
    AND (? IS NULL OR task.due_at < ?)
    AND (? IS NULL OR INSTR(labels, ?) > 0)
    AND (? IS NULL OR updated_at >= ?)
    AND (? IS NULL OR LOCATE(CAST(? AS BINARY), CAST(last_error AS BINARY)) > 0)
ORDER BY registry.id LIMIT ?
