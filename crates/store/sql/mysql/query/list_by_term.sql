-- As list.sql, among the tasks that are entered under a term, inside a range of ids that bounds the work.
-- 1 term, 2 below this id, 3 down to this id; each other condition holds only if it is not NULL, and is given twice:
-- 4 and 5 namespace, 6 and 7 queue, 8 and 9 state code, 10 and 11 kind, 12 and 13 due from (ms), 14 and 15 due before
-- (ms), 16 and 17 a label as it stands in the text of all labels, 18 and 19 changed from (ms), 20 and 21 a text in its last
-- error, 22 limit.
SELECT STRAIGHT_JOIN
    task.id, task.partition_no, task.namespace, task.task_id, task.task_version, queue, kind, priority, state, fence,
    attempt, max_attempts, execute_at, task.due_at, fired_at, created_at, updated_at, keep_until, place_due_at,
    timeout_ms, deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log, result_code, result_msg, result_is_json, result_body, last_error, payload_is_json,
    COALESCE(task.payload, body.payload), ''
FROM lookup FORCE INDEX (PRIMARY)
JOIN registry FORCE INDEX (registry_newest) ON registry.id = lookup.id AND registry.partition_no = lookup.partition_no
JOIN (SELECT hosted.partition_no AS here_no FROM hosted FORCE INDEX (PRIMARY) WHERE hosted.state IN (1, 2)) AS here
    ON here.here_no = registry.partition_no
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = registry.partition_no AND moved.id = registry.id
JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = registry.partition_no AND task.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task.id = registry.id
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
WHERE lookup.term = ? AND lookup.id < ? AND lookup.id >= ?
    AND (? IS NULL OR task.namespace = ?)
    AND (? IS NULL OR queue = ?)
    AND (? IS NULL OR state = ?)
    AND (? IS NULL OR kind = ?)
    AND (? IS NULL OR task.due_at >= ?)
    AND (? IS NULL OR task.due_at < ?)
    AND (? IS NULL OR INSTR(labels, ?) > 0)
    AND (? IS NULL OR updated_at >= ?)
    AND (? IS NULL OR LOCATE(CAST(? AS BINARY), CAST(last_error AS BINARY)) > 0)
ORDER BY lookup.term DESC, lookup.id DESC LIMIT ?
