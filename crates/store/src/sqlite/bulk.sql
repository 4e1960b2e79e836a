-- Bulk operations, and the search for the tasks that they are about.

-- name: advance
-- Advances an operation if its step is the expected one.
-- parameters: ?1 id, ?2 expected step, ?3 state, ?4 progress (JSON), ?5 wake_at (ms, NULL: never), ?6 now (ms).
UPDATE bulk SET step = step + 1, state = ?3, progress = ?4, wake_at = ?5, updated_at = ?6 WHERE id = ?1 AND step = ?2

-- name: create
-- Inserts an operation.
-- parameters: ?1 namespace, ?2 state, ?3 body (JSON), ?4 progress (JSON), ?5 now (ms), ?6 created by, ?7 wake_at (ms,
-- NULL: never).
INSERT INTO bulk (namespace, step, state, body, progress, wake_at, created_at, created_by, updated_at)
VALUES (?1, 1, ?2, ?3, ?4, ?7, ?5, ?6, ?5)

-- name: list_due
-- Lists operations whose wake_at has come, the longest overdue first.
-- parameters: ?1 slots (bits), ?2 now (ms), ?3 limit.
SELECT id, namespace, step, state, body, progress, wake_at, created_at, created_by, updated_at
FROM bulk WHERE wake_at <= ?2 AND (?1 >> (id % 32)) & 1 = 1 ORDER BY wake_at, id LIMIT ?3

-- name: save_failure
-- Saves a failure, in the place of an earlier one of the same task, while fewer are stored than are kept.
-- parameters: ?1 bulk, ?2 id of the task, ?3 reference, ?4 at (ms), ?5 error, ?6 how many are kept.
INSERT INTO bulk_failure (bulk_id, id, task_ref, failed_at, error)
SELECT ?1, ?2, ?3, ?4, ?5 WHERE (SELECT count(*) FROM bulk_failure WHERE bulk_id = ?1) < ?6
ON CONFLICT (bulk_id, id) DO UPDATE SET failed_at = excluded.failed_at, error = excluded.error

-- name: list_failures
-- Lists the failures of an operation by the ids of their tasks.
-- parameters: ?1 bulk, ?2 above this id, ?3 limit.
SELECT task_ref, failed_at, error FROM bulk_failure WHERE bulk_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3

-- name: delete
-- Deletes an operation.
-- parameters: ?1 id.
DELETE FROM bulk WHERE id = ?1

-- name: delete_failures_of_bulk
-- Deletes the failures of an operation.
-- parameters: ?1 bulk.
DELETE FROM bulk_failure WHERE bulk_id = ?1

-- name: list
-- Lists the operations of a namespace, the newest first.
-- parameters: ?1 namespace, ?2 below this id, ?3 limit.
SELECT id, namespace, step, state, body, progress, wake_at, created_at, created_by, updated_at
FROM bulk WHERE namespace = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3

-- name: list_matching
-- Lists the places of tasks that match, the newest first, in a range of ids that bounds the work.
-- parameters: ?1 below this id, ?2 down to this id, ?3 limit, ?4 states (bits); each other condition holds only if it
-- is not NULL: ?5 namespace, ?6 queue, ?7 kind, ?8 due from (ms), ?9 due before (ms), ?10 label and ?11 its value,
-- ?12 a text in the last error, ?13 created until (ms), ?14 partitions (JSON).
SELECT partition, place_due_at, id
FROM task
WHERE id < ?1 AND id >= ?2
    AND (?4 >> state) & 1 = 1
    AND (?5 IS NULL OR namespace = ?5)
    AND (?6 IS NULL OR queue = ?6)
    AND (?7 IS NULL OR kind = ?7)
    AND (?8 IS NULL OR due_at >= ?8)
    AND (?9 IS NULL OR due_at < ?9)
    AND (?10 IS NULL OR EXISTS (SELECT 1 FROM json_each(labels) AS it WHERE it.key = ?10 AND it.value = ?11))
    AND (?12 IS NULL OR instr(last_error, ?12) > 0)
    AND (?13 IS NULL OR created_at <= ?13)
    AND (?14 IS NULL OR partition IN (SELECT value FROM json_each(?14)))
ORDER BY id DESC LIMIT ?3

-- name: list_matching_by_label
-- Lists the places of tasks that match, as `list_matching`, among the tasks that have an entry in `task_label`.
-- parameters: ?1 below this id, ?2 down to this id, ?3 limit, ?4 states (bits), ?5 namespace, ?15 the label
-- (key=value); each other condition holds only if it is not NULL: ?6 queue, ?7 kind, ?8 due from (ms), ?9 due before
-- (ms), ?10 label and ?11 its value, ?12 a text in the last error, ?13 created until (ms), ?14 partitions (JSON).
SELECT partition, place_due_at, task.id
FROM task_label CROSS JOIN task ON task.id = task_label.id
WHERE task_label.namespace = ?5 AND task_label.label = ?15 AND task_label.id < ?1 AND task_label.id >= ?2
    AND (?4 >> state) & 1 = 1
    AND task.namespace = ?5
    AND (?6 IS NULL OR queue = ?6)
    AND (?7 IS NULL OR kind = ?7)
    AND (?8 IS NULL OR due_at >= ?8)
    AND (?9 IS NULL OR due_at < ?9)
    AND (?10 IS NULL OR EXISTS (SELECT 1 FROM json_each(labels) AS it WHERE it.key = ?10 AND it.value = ?11))
    AND (?12 IS NULL OR instr(last_error, ?12) > 0)
    AND (?13 IS NULL OR created_at <= ?13)
    AND (?14 IS NULL OR partition IN (SELECT value FROM json_each(?14)))
ORDER BY task_label.id DESC LIMIT ?3

-- name: list_matching_dead
-- Lists the places of tasks that match, as `list_matching`, among the dead tasks of a namespace.
-- parameters: ?1 below this id, ?2 down to this id, ?3 limit, ?4 states (bits), ?5 namespace; each other condition
-- holds only if it is not NULL: ?6 queue, ?7 kind, ?8 due from (ms), ?9 due before (ms), ?10 label and ?11 its value,
-- ?12 a text in the last error, ?13 created until (ms), ?14 partitions (JSON).
SELECT partition, place_due_at, id FROM task
WHERE state = 9 AND namespace = ?5 AND id < ?1 AND id >= ?2
    AND (?4 >> state) & 1 = 1
    AND (?6 IS NULL OR queue = ?6)
    AND (?7 IS NULL OR kind = ?7)
    AND (?8 IS NULL OR due_at >= ?8)
    AND (?9 IS NULL OR due_at < ?9)
    AND (?10 IS NULL OR EXISTS (SELECT 1 FROM json_each(labels) AS it WHERE it.key = ?10 AND it.value = ?11))
    AND (?12 IS NULL OR instr(last_error, ?12) > 0)
    AND (?13 IS NULL OR created_at <= ?13)
    AND (?14 IS NULL OR partition IN (SELECT value FROM json_each(?14)))
ORDER BY id DESC LIMIT ?3

-- name: delete_failure
-- Deletes the failure of a task that succeeded since.
-- parameters: ?1 bulk, ?2 id of the task.
DELETE FROM bulk_failure WHERE bulk_id = ?1 AND id = ?2

-- name: find_next_wake
-- Finds the earliest wake_at of all operations; no row: none has one.
SELECT wake_at FROM bulk WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1

-- name: list_old
-- Lists operations that have not changed since an instant and are not at work (states 1, 4 and 5).
-- parameters: ?1 before (ms), ?2 limit.
SELECT id FROM bulk WHERE updated_at < ?1 AND state IN (1, 4, 5) ORDER BY updated_at LIMIT ?2

-- name: read
-- Reads an operation.
-- parameters: ?1 id.
SELECT id, namespace, step, state, body, progress, wake_at, created_at, created_by, updated_at
FROM bulk WHERE id = ?1
