-- Inserting tasks.

-- name: read_clock
-- Reads the machine's clock (ms).
SELECT CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)

-- name: insert_body
-- Stores a long payload beside its task.
-- parameters: ?1 task id, ?2 payload.
INSERT INTO body (id, payload) VALUES (?1, ?2)
ON CONFLICT (id) DO UPDATE SET payload = excluded.payload

-- name: delete_body
-- Deletes the long payload of a task that is deleted or has another payload now.
-- parameters: ?1 task id.
DELETE FROM body WHERE id = ?1

-- name: find_highest_version
-- Finds the highest version of a caller's id.
-- parameters: ?1 namespace, ?2 task_id.
-- answers: id, task_version, state, demands (JSON, with its key) or NULL; no row: the id is free.
SELECT id, task_version, state, demands FROM task
WHERE namespace = ?1 AND task_id = ?2 ORDER BY task_version DESC LIMIT 1

-- name: insert_task
-- Inserts a task, scheduled.
-- parameters: ?1 id, ?2 partition, ?3 namespace, ?4 task_id, ?5 task_version, ?6 queue, ?7 kind, ?8 priority,
-- ?9 max_attempts, ?10 execute_at (ms), ?11 due_at (ms), ?12 now (ms), ?13 timeout_ms or NULL, ?14 deadline_ms or
-- NULL, ?15 retry (JSON) or NULL (default), ?16 labels (JSON) or NULL, ?17 traceparent or NULL, ?18 whether the
-- payload is JSON, ?19 payload, or NULL when it goes to `body`, ?20 the first history line, ?21 demands (JSON) or
-- NULL.
INSERT INTO task (
    id, partition, namespace, task_id, task_version, queue, kind, priority, max_attempts, execute_at, due_at,
    wait_at, place_due_at, created_at, updated_at, timeout_ms, deadline_ms, retry, labels, traceparent,
    payload_is_json, payload, history, demands, state, fence, attempt, cancel_requested
) VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
    ?11, ?11, ?12, ?12, ?13, ?14, ?15, ?16, ?17,
    ?18, ?19, ?20, ?21, 1, 1, 0, 0
)
