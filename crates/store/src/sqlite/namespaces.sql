-- Deleting a namespace with all that belongs to it.

-- name: delete_bulk_failures
-- Deletes the failures of the bulk operations of a namespace.
-- parameters: ?1 namespace, ?2 limit.
DELETE FROM bulk_failure WHERE (bulk_id, id) IN (
    SELECT bulk_failure.bulk_id, bulk_failure.id FROM bulk JOIN bulk_failure ON bulk_failure.bulk_id = bulk.id
    WHERE bulk.namespace = ?1 LIMIT ?2
)

-- name: delete_bulks
-- Deletes the bulk operations of a namespace that have no failures left.
-- parameters: ?1 namespace, ?2 limit.
DELETE FROM bulk WHERE id IN (
    SELECT id FROM bulk AS own
    WHERE namespace = ?1 AND NOT EXISTS (SELECT 1 FROM bulk_failure WHERE bulk_id = own.id) LIMIT ?2
)

-- name: delete_setting_changes
-- Deletes the history of settings of the queues of a namespace; the history of its own settings stays.
-- parameters: ?1 namespace, ?2 limit.
DELETE FROM setting_change WHERE revision IN (
    SELECT revision FROM setting_change WHERE namespace = ?1 AND queue > '' LIMIT ?2
)

-- name: delete_task
-- Deletes a task of a namespace that is being deleted, in any state.
-- parameters: ?1 id.
DELETE FROM task WHERE id = ?1

-- name: delete_evaluations
-- Deletes the evaluation marks of a namespace. There are few marks at any time.
-- parameters: ?1 namespace, ?2 limit.
DELETE FROM evaluation WHERE (kind, id, engine, turn) IN (SELECT kind, id, engine, turn FROM evaluation WHERE namespace = ?1 LIMIT ?2)

-- name: delete_executors
-- Deletes the executors of a namespace.
-- parameters: ?1 namespace, ?2 limit.
DELETE FROM executor WHERE namespace = ?1 AND name IN (SELECT name FROM executor WHERE namespace = ?1 LIMIT ?2)

-- name: list_tasks
-- Lists the tasks of a namespace, in the order of their ids, in any state. The last columns are the bytes of the
-- payload, and whether the task is asked to stop.
-- parameters: ?1 namespace, ?2 from this task_id, ?3 from this task_version (inclusive), ?4 limit.
SELECT id, partition, due_at, task_id, task_version, queue, state, fence,
    CASE
        WHEN payload_is_json >= 2 THEN CAST(CAST(payload AS TEXT) AS INTEGER)
        WHEN payload IS NOT NULL THEN length(payload)
        ELSE (SELECT length(body.payload) FROM body WHERE body.id = task.id) END,
    cancel_requested
FROM task
WHERE namespace = ?1 AND task_id >= ?2 AND (task_id > ?2 OR task_version >= ?3)
ORDER BY task_id, task_version LIMIT ?4

-- name: delete_replies
-- Deletes the answers that are kept under the idempotency keys of a namespace.
-- parameters: ?1 namespace, ?2 limit.
DELETE FROM reply WHERE namespace = ?1 AND key IN (SELECT key FROM reply WHERE namespace = ?1 LIMIT ?2)

-- name: delete_schedules
-- Deletes the schedules of a namespace; their runs are deleted with time.
-- parameters: ?1 namespace, ?2 limit.
DELETE FROM schedule WHERE id IN (SELECT id FROM schedule WHERE namespace = ?1 LIMIT ?2)

-- name: find_next_with_schedules
-- Finds the next namespace, by name, that has schedules.
-- parameters: ?1 after this name.
SELECT namespace FROM schedule WHERE namespace > ?1 ORDER BY namespace LIMIT 1
