-- Search, oldest first, without histories, inside a range of ids that bounds the work.
-- ?1 below this id, ?2 down to this id, ?3 limit; each other condition holds only if it is not NULL:
-- ?4 namespace, ?5 queue, ?6 state code, ?7 kind, ?8 due from (ms), ?9 due before (ms), ?10 label and ?11 its value,
-- ?12 changed from (ms), ?13 a text in its last error.
SELECT id, partition, namespace, task_id, task_version, queue, kind, priority, state, fence, attempt,
    max_attempts, execute_at, due_at, fired_at, created_at, updated_at, keep_until, place_due_at, timeout_ms,
    deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log,
    result_code, result_msg, result_is_json, result_body, last_error, payload_is_json, payload, ''
FROM whole_task
WHERE id < ?1 AND id >= ?2
    AND (?4 IS NULL OR namespace = ?4)
    AND (?5 IS NULL OR queue = ?5)
    AND (?6 IS NULL OR state = ?6)
    AND (?7 IS NULL OR kind = ?7)
    AND (?8 IS NULL OR due_at >= ?8)
    AND (?9 IS NULL OR due_at < ?9)
    AND (?10 IS NULL OR EXISTS (SELECT 1 FROM json_each(labels) AS it WHERE it.key = ?10 AND it.value = ?11))
    AND (?12 IS NULL OR updated_at >= ?12)
    AND (?13 IS NULL OR instr(last_error, ?13) > 0)
ORDER BY id LIMIT ?3
