-- Search among what waits, along the due times of one partition, the earliest first, without histories, inside a range that
-- bounds the work. ?1 partition, ?2 due from (ms) and ?3 from this id there, ?4 due to (ms) and ?5 below this id there, ?6 limit;
-- each other condition holds only if it is not NULL: ?7 namespace, ?8 queue, ?9 state code, ?10 kind, ?11 label and ?12 its value,
-- ?13 changed from (ms), ?14 a text in its last error.
SELECT task.id, partition, namespace, task_id, task_version, queue, kind, priority, state, fence, attempt,
    max_attempts, execute_at, due_at, fired_at, created_at, updated_at, keep_until, place_due_at, timeout_ms,
    deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log,
    result_code, result_msg, result_is_json, result_body, last_error, payload_is_json, coalesce(task.payload, body.payload), ''
FROM task LEFT JOIN body ON task.payload IS NULL AND body.id = task.id
WHERE partition = ?1 AND wait_at >= ?2 AND wait_at <= ?4
    AND (wait_at > ?2 OR task.id >= ?3)
    AND (wait_at < ?4 OR task.id < ?5)
    AND (?7 IS NULL OR namespace = ?7)
    AND (?8 IS NULL OR queue = ?8)
    AND (?9 IS NULL OR state = ?9)
    AND (?10 IS NULL OR kind = ?10)
    AND (?11 IS NULL OR EXISTS (SELECT 1 FROM json_each(labels) AS it WHERE it.key = ?11 AND it.value = ?12))
    AND (?13 IS NULL OR updated_at >= ?13)
    AND (?14 IS NULL OR instr(last_error, ?14) > 0)
ORDER BY wait_at, task.id LIMIT ?6
