-- Deleting a namespace with all that belongs to it.

-- name: delete_bulk_failures
-- Deletes the failures of the bulk operations of a namespace.
-- parameters: 1 namespace, 2 limit.
DELETE FROM bulk_failure WHERE bulk_id IN (SELECT bulk.id FROM bulk WHERE bulk.namespace = ?)
ORDER BY bulk_id, id LIMIT ?

-- name: delete_bulks
-- Deletes the bulk operations of a namespace that have no failures left.
-- parameters: 1 namespace, 2 limit.
DELETE FROM bulk WHERE namespace = ? AND NOT EXISTS (SELECT 1 FROM bulk_failure WHERE bulk_failure.bulk_id = bulk.id)
ORDER BY namespace, id LIMIT ?

-- name: delete_setting_changes
-- Deletes the history of settings of the queues of a namespace; the history of its own settings stays.
-- parameters: 1 namespace, 2 limit.
DELETE FROM setting_change WHERE namespace = ? AND queue > '' ORDER BY namespace, queue, revision LIMIT ?

-- name: delete_tasks
-- Deletes locked tasks with all that belongs to them, in any state: of a namespace that is being deleted, or finished
-- ones on request.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id]).
DELETE task, registry, moved, body, lookup
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at AND task.id = wanted.id
LEFT JOIN registry FORCE INDEX (PRIMARY) ON registry.partition_no = task.partition_no AND registry.namespace = task.namespace
    AND registry.task_id = task.task_id AND registry.task_version = task.task_version
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = task.partition_no AND moved.id = task.id
LEFT JOIN body FORCE INDEX (PRIMARY) ON body.partition_no = task.partition_no AND body.id = task.id
LEFT JOIN lookup FORCE INDEX (lookup_of) ON lookup.partition_no = task.partition_no AND lookup.id = task.id

-- name: delete_evaluations
-- Deletes the evaluation marks of a namespace. There are few marks at any time.
-- parameters: 1 namespace, 2 limit.
DELETE FROM evaluation WHERE namespace = ? LIMIT ?

-- name: delete_executors
-- Deletes the executors of a namespace.
-- parameters: 1 namespace, 2 limit.
DELETE FROM executor WHERE namespace = ? ORDER BY namespace, name LIMIT ?

-- name: list_tasks
-- Lists the tasks of a namespace in one partition, in the order of their ids, in any state.
-- parameters: 1 partition, 2 namespace, 3 from this task_id, 4 the same task_id, 5 from this task_version
-- (inclusive), 6 limit.
SELECT task_id, task_version, id, due_at FROM registry FORCE INDEX (PRIMARY)
WHERE partition_no = ? AND namespace = ? AND task_id >= ? AND (task_id > ? OR task_version >= ?)
ORDER BY task_id, task_version LIMIT ?

-- name: delete_replies
-- Deletes the answers that are kept under the idempotency keys of a namespace.
-- parameters: 1 namespace, 2 limit.
DELETE FROM reply WHERE namespace = ? ORDER BY namespace, reply_key LIMIT ?

-- name: delete_schedules
-- Deletes the schedules of a namespace; their runs are deleted with time.
-- parameters: 1 namespace, 2 limit.
DELETE FROM schedule WHERE namespace = ? ORDER BY namespace, name LIMIT ?

-- name: list_with_schedules
-- Lists the namespaces that have schedules.
SELECT DISTINCT namespace FROM schedule ORDER BY namespace
