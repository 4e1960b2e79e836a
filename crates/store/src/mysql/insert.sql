-- Inserting and replacing tasks.

-- name: read_clock
-- Reads the server's clock (ms).
SELECT CAST(ROUND(UNIX_TIMESTAMP(CURRENT_TIMESTAMP(3)) * 1000) AS SIGNED)

-- name: list_between
-- Lists the existing task ids in a range of one namespace, each once for each version. The order keeps the server
-- from reading the whole registry while it believes that there are no rows: after a start, until it has counted them.
-- parameters: 1 partition (the list), 2 namespace, 3 from task_id, 4 to task_id (inclusive), 5 limit.
-- holes: {list} repeated for each partition.
SELECT partition_no, task_id FROM registry FORCE INDEX (PRIMARY)
WHERE partition_no IN ({list: ?}) AND namespace = ? AND task_id BETWEEN ? AND ?
ORDER BY partition_no, namespace, task_id
LIMIT ?

-- name: insert_body
-- Stores a long payload beside its task.
-- parameters: 1 partition, 2 task id, 3 payload.
INSERT INTO body (partition_no, id, payload) VALUES (?, ?, ?)
ON DUPLICATE KEY UPDATE payload = VALUES(payload)

-- name: delete_body
-- Deletes the long payload of a task that now has a short one.
-- parameters: 1 partition, 2 task id.
DELETE FROM body WHERE partition_no = ? AND id = ?

-- name: restore_dropped
-- Puts unsettled tasks of a dropped bucket, which waits to be archived or settled, back at their places. The caller
-- holds the lock of `lock_dropped`.
-- parameters: 1 their references (JSON: [number, partition, due_at (ms), id]).
INSERT INTO task
SELECT STRAIGHT_JOIN task_gone.*
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = wanted.partition_no AND moved.id = wanted.id
JOIN task_gone FORCE INDEX (PRIMARY)
    ON task_gone.partition_no = wanted.partition_no AND task_gone.due_at = COALESCE(moved.due_at, wanted.due_at)
    AND task_gone.id = wanted.id
JOIN gone_to FORCE INDEX (PRIMARY) ON gone_to.one = 1
    AND (task_gone.partition_no > gone_to.partition_no
        OR (task_gone.partition_no = gone_to.partition_no AND task_gone.due_at > gone_to.due_at)
        OR (task_gone.partition_no = gone_to.partition_no AND task_gone.due_at = gone_to.due_at
            AND task_gone.id > gone_to.id))

-- name: lock_dropped
-- Locks the dropped bucket until the end of the transaction: either its rows are settled, or tasks are restored from
-- it.
SELECT one FROM gone_to WHERE one = 1 FOR UPDATE

-- name: delete_restored
-- Deletes from the dropped bucket the tasks that `restore_dropped` has put back in this transaction.
-- parameters: 1 their references (JSON: [number, partition, due_at (ms), id]).
DELETE task_gone
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = wanted.partition_no AND moved.id = wanted.id
JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = COALESCE(moved.due_at, wanted.due_at)
    AND task.id = wanted.id
JOIN task_gone FORCE INDEX (PRIMARY)
    ON task_gone.partition_no = task.partition_no AND task_gone.due_at = task.due_at AND task_gone.id = task.id

-- name: insert_entries
-- Enters callers' ids with the references of their tasks. An entry that exists is an error, which begins the
-- transaction again: that decides between two engines that insert the same id at once.
-- parameters: of each row: 1 partition, 2 namespace, 3 task_id, 4 task_version, 5 id, 6 due_at (ms).
-- holes: {rows} repeated for each row.
INSERT INTO registry (partition_no, namespace, task_id, task_version, id, due_at)
VALUES {rows: (?, ?, ?, ?, ?, ?)}

-- name: replace
-- Replaces a task by one with the same id and version. Its reference stays valid. The state is set last: MySQL lets
-- an assignment see those before it.
-- parameters: 1 queue, 2 kind, 3 priority, 4 max_attempts, 5 execute_at (ms), 6 timeout_ms or NULL, 7 deadline_ms or
-- NULL, 8 retry (JSON) or NULL (default), 9 labels (JSON) or NULL, 10 traceparent or NULL, 11 demands (JSON) or NULL,
-- 12 whether the payload is JSON, 13 payload, or NULL when it goes to `body`, 14 now (ms), 15 and 16 the history line
-- around "<state>,<attempt>", 17 new due_at (ms); of the row as it was read and locked: 18 partition, 19 due_at (ms),
-- 20 id.
-- moves: replace from (1, 2, 3, 6, 7, 9, 10, 11, 12) to 1
UPDATE task FORCE INDEX (PRIMARY) SET
    fence = fence + 1,
    attempt = 0,
    queue = ?,
    kind = ?,
    priority = ?,
    max_attempts = ?,
    execute_at = ?,
    fired_at = NULL,
    keep_until = NULL,
    timeout_ms = ?,
    deadline_ms = ?,
    lease_executor = NULL, lease_since = NULL, lease_until = NULL, cancel_requested = 0,
    retry = ?,
    labels = ?,
    traceparent = ?,
    demands = ?,
    progress = NULL,
    log = NULL,
    result_code = NULL, result_msg = NULL, result_is_json = NULL, result_body = NULL,
    last_error = NULL,
    payload_is_json = ?,
    payload = ?,
    updated_at = ?,
    history = CONCAT(IF(LENGTH(history) > 262144, CONCAT(
        SUBSTRING_INDEX(history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), history, CHAR_LENGTH(history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(history, LOCATE(CHAR(10 USING utf8mb4), history, CHAR_LENGTH(history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(history, LOCATE(CHAR(10 USING utf8mb4), history, CHAR_LENGTH(history) DIV 2) + 1)), history), ?, state, ',', 0, ?),
    due_at = ?,
    state = 1
WHERE partition_no = ? AND due_at = ? AND id = ? AND state IN (1, 2, 3, 6, 7, 9, 10, 11, 12)

-- name: insert_tasks
-- Inserts tasks, scheduled.
-- parameters: of each row: 1 partition, 2 due_at (ms), 3 id, 4 namespace, 5 task_id, 6 task_version, 7 queue, 8 kind,
-- 9 priority, 10 max_attempts, 11 execute_at (ms), 12 due_at again, as the reference has it (ms), 13 now (ms), 14 now
-- (ms), 15 timeout_ms or NULL, 16 deadline_ms or NULL, 17 retry (JSON) or NULL (default), 18 labels (JSON) or NULL,
-- 19 traceparent or NULL, 20 whether the payload is JSON, 21 payload, or NULL when it goes to `body`, 22 the first
-- history line, 23 demands (JSON) or NULL.
-- holes: {rows} repeated for each row.
INSERT INTO task (
    partition_no, due_at, id, namespace, task_id, task_version, queue, kind, priority, max_attempts, execute_at,
    place_due_at, created_at, updated_at, timeout_ms, deadline_ms, retry, labels, traceparent, payload_is_json,
    payload, history, demands, state, fence, attempt, cancel_requested
)
VALUES {rows: (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, 1, 0, 0)}

-- name: insert_plain_tasks
-- Inserts tasks, as `insert_tasks`, without timeout_ms, deadline_ms, retry, labels, traceparent and demands, which
-- most tasks do not have: fewer parameters cost the server less. Columns further left in the row have their values
-- already.
-- parameters: of each row: 1 partition, 2 due_at (ms), 3 id, 4 namespace, 5 task_id, 6 task_version, 7 queue, 8 kind,
-- 9 priority, 10 max_attempts, 11 execute_at (ms), 12 now (ms), 13 whether the payload is JSON, 14 payload, or NULL
-- when it goes to `body`, 15 the first history line.
-- holes: {rows} repeated for each row.
INSERT INTO task (
    partition_no, due_at, id, namespace, task_id, task_version, queue, kind, priority, max_attempts, execute_at,
    created_at, payload_is_json, payload, history, place_due_at, updated_at, state, fence, attempt, cancel_requested
)
VALUES {rows: (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, due_at, created_at, 1, 1, 0, 0)}

-- name: lock_existing
-- Finds which callers' ids exist, in the same or a higher version, and locks them: nobody replaces or deletes them
-- meanwhile.
-- parameters: 1 the wanted (JSON: [number, partition, task_id, task_version], in the order of the key), 2 namespace.
-- answers: the number, task_version, id, and due_at of the reference (ms).
SELECT wanted.nth, registry.task_version, registry.id, registry.due_at
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', task_id BIGINT PATH '$[2]', task_version BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN registry FORCE INDEX (PRIMARY) ON registry.partition_no = wanted.partition_no AND registry.namespace = ?
    AND registry.task_id = wanted.task_id AND registry.task_version >= wanted.task_version
FOR UPDATE /*!80001 OF registry */
