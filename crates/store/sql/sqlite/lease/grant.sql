-- What an executor is handed, read just before the move. ?1 id, ?2 fence. No row: the race is lost.
SELECT namespace, queue, state, task_id, task_version, fence, attempt, kind, priority, payload_is_json,
    coalesce(task.payload, body.payload), due_at, timeout_ms, traceparent, partition, place_due_at, max_attempts,
    labels, execute_at
FROM task LEFT JOIN body ON task.payload IS NULL AND body.id = task.id
WHERE task.id = ?1 AND fence = ?2 AND (state = 1 OR state = 2 OR state = 3 OR state = 6 OR state = 7)
