-- Bulk operations, in the catalog, and the search for the tasks that they are about.

-- name: advance
-- Advances an operation if its step is the expected one. In the catalog.
-- parameters: 1 state, 2 progress (JSON), 3 wake_at (ms, NULL: never), 4 now (ms), 5 id, 6 expected step.
UPDATE bulk SET step = step + 1, state = ?, progress = ?, wake_at = ?, updated_at = ? WHERE id = ? AND step = ?

-- name: create
-- Inserts an operation. In the catalog.
-- parameters: 1 namespace, 2 state, 3 body (JSON), 4 progress (JSON), 5 wake_at (ms, NULL: never), 6 now (ms),
-- 7 created by, 8 now (ms).
INSERT INTO bulk (namespace, step, state, body, progress, wake_at, created_at, created_by, updated_at)
VALUES (?, 1, ?, ?, ?, ?, ?, ?, ?)

-- name: list_due
-- Lists operations whose wake_at has come, the longest overdue first. In the catalog.
-- parameters: 1 now (ms), 2 slots (bits), 3 limit.
SELECT id, namespace, step, state, body, progress, wake_at, created_at, created_by, updated_at
FROM bulk FORCE INDEX (bulk_wake) WHERE wake_at <= ? AND (? >> (id % 32)) & 1 = 1 ORDER BY wake_at, id LIMIT ?

-- name: save_failures
-- Saves failures, in the place of earlier ones of the same tasks, while fewer are stored than are kept. In the
-- catalog.
-- parameters: 1 the rows (JSON: [bulk, id, reference, at (ms), error]), 2 bulk, 3 how many are kept.
INSERT INTO bulk_failure (bulk_id, id, task_ref, failed_at, error)
SELECT bulk, task, task_ref, failed_at, error
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    bulk BIGINT PATH '$[0]', task BIGINT PATH '$[1]',
    task_ref VARCHAR(64) CHARACTER SET ascii PATH '$[2]', failed_at BIGINT PATH '$[3]',
    error LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]'
)) AS wanted
WHERE (SELECT COUNT(*) FROM (SELECT id FROM bulk_failure WHERE bulk_id = ?) AS standing) < ?
ON DUPLICATE KEY UPDATE failed_at = VALUES(failed_at), error = VALUES(error)

-- name: list_failures
-- Lists the failures of an operation by the ids of their tasks. In the catalog.
-- parameters: 1 bulk, 2 above this id, 3 limit.
SELECT task_ref, failed_at, error FROM bulk_failure WHERE bulk_id = ? AND id > ? ORDER BY id LIMIT ?

-- name: delete
-- Deletes an operation with its failures, unless it is at work. In the catalog.
-- parameters: 1 id.
DELETE bulk, bulk_failure FROM bulk LEFT JOIN bulk_failure ON bulk_failure.bulk_id = bulk.id
WHERE bulk.id = ? AND bulk.state IN (1, 4, 5)

-- name: list
-- Lists the operations of a namespace, the newest first. In the catalog.
-- parameters: 1 namespace, 2 below this id, 3 limit.
SELECT id, namespace, step, state, body, progress, wake_at, created_at, created_by, updated_at
FROM bulk FORCE INDEX (bulk_of) WHERE namespace = ? AND id < ? ORDER BY id DESC LIMIT ?

-- name: list_matching
-- Lists the places of tasks that match, the newest first, in a range of ids that bounds the work; only in partitions
-- that this database hosts.
-- parameters: 1 whether labels are wanted, 2 and 3 partitions (separated by commas; NULL: all), 4 below this id,
-- 5 down to this id, 6 states (bits); each other condition holds only if it is not NULL, and is given twice: 7 and
-- 8 namespace, 9 and 10 queue, 11 and 12 kind, 13 and 14 due from (ms), 15 and 16 due before (ms), 17 and 18 a label
-- as it is written in the text of all labels (the caller compares again: it may be in another label's value), 19 and
-- 20 a text in the last error, 21 and 22 created until (ms), 23 limit.
SELECT STRAIGHT_JOIN registry.partition_no, registry.due_at, registry.id, IF(?, labels, NULL)
FROM registry
JOIN (
    SELECT hosted.partition_no AS here_no FROM hosted FORCE INDEX (PRIMARY)
    WHERE hosted.state IN (1, 2) AND (? IS NULL OR FIND_IN_SET(hosted.partition_no, ?) > 0)
) AS here
    ON here.here_no = registry.partition_no
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = registry.partition_no AND moved.id = registry.id
JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = registry.partition_no AND task.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task.id = registry.id
WHERE registry.id < ? AND registry.id >= ?
    AND (? >> state) & 1 = 1
    AND (? IS NULL OR task.namespace = ?)
    AND (? IS NULL OR queue = ?)
    AND (? IS NULL OR kind = ?)
    AND (? IS NULL OR task.due_at >= ?)
    AND (? IS NULL OR task.due_at < ?)
    AND (? IS NULL OR INSTR(labels, ?) > 0)
    AND (? IS NULL OR LOCATE(CAST(? AS BINARY), CAST(last_error AS BINARY)) > 0)
    AND (? IS NULL OR created_at <= ?)
ORDER BY registry.id DESC LIMIT ?

-- name: list_matching_by_term
-- Lists the places of tasks that match, as `list_matching`, among the tasks that have a term in `lookup`.
-- parameters: 1 whether labels are wanted, 2 and 3 partitions (separated by commas; NULL: all), 4 term, 5 below this
-- id, 6 down to this id, 7 states (bits); each other condition holds only if it is not NULL, and is given twice:
-- 8 and 9 namespace, 10 and 11 queue, 12 and 13 kind, 14 and 15 due from (ms), 16 and 17 due before (ms), 18 and 19 a
-- label as it is written in the text of all labels, 20 and 21 a text in the last error, 22 and 23 created until (ms),
-- 24 limit.
SELECT STRAIGHT_JOIN registry.partition_no, registry.due_at, registry.id, IF(?, labels, NULL)
FROM lookup FORCE INDEX (PRIMARY)
JOIN registry FORCE INDEX (registry_newest) ON registry.id = lookup.id AND registry.partition_no = lookup.partition_no
JOIN (
    SELECT hosted.partition_no AS here_no FROM hosted FORCE INDEX (PRIMARY)
    WHERE hosted.state IN (1, 2) AND (? IS NULL OR FIND_IN_SET(hosted.partition_no, ?) > 0)
) AS here
    ON here.here_no = registry.partition_no
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = registry.partition_no AND moved.id = registry.id
JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = registry.partition_no AND task.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task.id = registry.id
WHERE lookup.term = ? AND lookup.id < ? AND lookup.id >= ?
    AND (? >> state) & 1 = 1
    AND (? IS NULL OR task.namespace = ?)
    AND (? IS NULL OR queue = ?)
    AND (? IS NULL OR kind = ?)
    AND (? IS NULL OR task.due_at >= ?)
    AND (? IS NULL OR task.due_at < ?)
    AND (? IS NULL OR INSTR(labels, ?) > 0)
    AND (? IS NULL OR LOCATE(CAST(? AS BINARY), CAST(last_error AS BINARY)) > 0)
    AND (? IS NULL OR created_at <= ?)
ORDER BY lookup.term DESC, lookup.id DESC LIMIT ?

-- name: delete_failures
-- Deletes the failures of tasks that succeeded since. In the catalog.
-- parameters: 1 the rows (JSON: [bulk, id]).
DELETE bulk_failure
FROM JSON_TABLE(?, '$[*]' COLUMNS (bulk BIGINT PATH '$[0]', task BIGINT PATH '$[1]')) AS wanted
STRAIGHT_JOIN bulk_failure FORCE INDEX (PRIMARY) ON bulk_failure.bulk_id = wanted.bulk AND bulk_failure.id = wanted.task

-- name: find_next_wake
-- Finds the earliest wake_at of all operations; no row: none has one. In the catalog.
SELECT wake_at FROM bulk FORCE INDEX (bulk_wake) WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1

-- name: list_old
-- Lists operations that have not changed since an instant and are not at work (states 1, 4 and 5). In the catalog.
-- parameters: 1 before (ms), 2 limit.
SELECT id FROM bulk FORCE INDEX (bulk_updated) WHERE updated_at < ? AND state IN (1, 4, 5) ORDER BY updated_at LIMIT ?

-- name: read
-- Reads an operation. In the catalog.
-- parameters: 1 id.
SELECT id, namespace, step, state, body, progress, wake_at, created_at, created_by, updated_at
FROM bulk WHERE id = ?
