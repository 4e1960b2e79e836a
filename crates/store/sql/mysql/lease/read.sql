-- As lease/grant.sql, but read without locks: whether a row is still so, the guard of the move says, because neither what
-- is handed over nor where it stands changes while a task keeps its state and its fence. Answers the id instead of a number.
-- {places} are conditions on places, of numbers only.
SELECT task.id, task.due_at, namespace, queue, state, fence, attempt, task_id, task_version, max_attempts, kind,
    priority, payload_is_json, COALESCE(task.payload, body.payload), timeout_ms, traceparent, place_due_at,
    labels, execute_at
FROM task FORCE INDEX (PRIMARY)
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
WHERE {places}
