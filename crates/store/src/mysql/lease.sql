-- Leases of tasks in flight, and the batches by which ended leases are found.

-- name: extend
-- Extends leases that are still held. No move.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, lease_until (ms, already bounded by timeout_ms),
-- progress (JSON text), executor, fired_at (ms); each null: unchanged]), 2 now (ms).
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    lease_until BIGINT PATH '$[4]', progress LONGTEXT CHARACTER SET utf8mb4 PATH '$[5]',
    lease_executor LONGTEXT CHARACTER SET utf8mb4 PATH '$[6]', fired_at BIGINT PATH '$[7]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (4, 5)
SET
    task.lease_until = wanted.lease_until,
    task.progress = COALESCE(wanted.progress, task.progress),
    task.lease_executor = COALESCE(wanted.lease_executor, task.lease_executor),
    task.fired_at = COALESCE(wanted.fired_at, task.fired_at),
    task.updated_at = ?

-- name: set_fired_at
-- Sets when the last attempts of finished tasks fired, if only their planned time was known. No move.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, fired_at (ms)]).
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    fired_at BIGINT PATH '$[4]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence
SET task.fired_at = wanted.fired_at

-- name: lock_for_grant
-- Reads what executors are handed, before the move, and locks it until the end of the transaction.
-- parameters: 1 the places (JSON: [number, partition, due_at (ms), id], in the order of the key).
SELECT wanted.nth, task.due_at, namespace, queue, state, fence, attempt, task_id, task_version, max_attempts, kind,
    priority, payload_is_json, COALESCE(task.payload, body.payload), timeout_ms, traceparent, place_due_at,
    labels, execute_at
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at AND task.id = wanted.id
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
FOR UPDATE /*!80001 OF task, body */

-- name: lock_held
-- Reads leases and locks them until the end of the transaction.
-- parameters: 1 the places (JSON: [number, partition, due_at (ms), id], in the order of the key).
SELECT wanted.nth, task.due_at, namespace, queue, state, fence, attempt, lease_since, lease_until, timeout_ms,
    cancel_requested, fired_at
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at AND task.id = wanted.id
FOR UPDATE /*!80001 OF task */

-- name: append_log
-- Appends handlers' log lines. No move. Beyond 16,384 bytes of a task the oldest lines are dropped.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, new lines (whole lines of JSON, at most
-- 16,384 bytes)]).
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    said LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]'
)) AS wanted
STRAIGHT_JOIN task ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (4, 5)
SET task.log = IF(
    LENGTH(COALESCE(task.log, '')) + LENGTH(wanted.said) <= 16384,
    CONCAT(COALESCE(task.log, ''), wanted.said),
    CONVERT(SUBSTRING(
        RIGHT(CAST(CONCAT(COALESCE(task.log, ''), wanted.said) AS BINARY), 16385),
        LOCATE(CHAR(10), RIGHT(CAST(CONCAT(COALESCE(task.log, ''), wanted.said) AS BINARY), 16385)) + 1
    ) USING utf8mb4))

-- name: read_for_grant
-- Reads what executors are handed, as `lock_for_grant`, without locks. The guard of the move finds out whether a row
-- has changed: neither what is handed over nor its place changes while a task keeps its state and its fence. Answers
-- the id instead of a number.
-- holes: {places} a condition on places, of numbers only.
SELECT task.id, task.due_at, namespace, queue, state, fence, attempt, task_id, task_version, max_attempts, kind,
    priority, payload_is_json, COALESCE(task.payload, body.payload), timeout_ms, traceparent, place_due_at,
    labels, execute_at
FROM task FORCE INDEX (PRIMARY)
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
WHERE {places}

-- name: request_stop
-- Marks a task in flight, so that its executor learns that it should stop. No move.
-- parameters: 1 now (ms), 2 partition, 3 due_at (ms), 4 id.
UPDATE task FORCE INDEX (PRIMARY) SET cancel_requested = 1, updated_at = ?
WHERE partition_no = ? AND due_at = ? AND id = ? AND state IN (4, 5)

-- name: insert_batches
-- Inserts leases by their ends, in the transaction that grants them.
-- parameters: of each row: 1 the earliest end (ms), 2 entries.
-- holes: {rows} repeated for each row.
INSERT INTO lease_batch (lease_until, entries) VALUES {rows: (?, ?)}

-- name: list_batches
-- Lists batches with leases that may have ended, the longest ended first.
-- parameters: 1 from this end (ms), 2 now (ms), 3 after this end (ms), or 4 after this batch, 5 limit.
SELECT batch_id, lease_until, entries FROM lease_batch
WHERE lease_until BETWEEN ? AND ? AND (lease_until > ? OR batch_id > ?)
ORDER BY lease_until, batch_id LIMIT ?

-- name: delete_batches
-- Deletes batches whose tasks in flight are in newer ones.
-- parameters: 1 the batches (JSON: array of numbers).
DELETE lease_batch FROM JSON_TABLE(?, '$[*]' COLUMNS (batch_id BIGINT PATH '$')) AS wanted
STRAIGHT_JOIN lease_batch ON lease_batch.batch_id = wanted.batch_id

-- name: read_in_flight
-- Reads which of these tasks are still in flight, and until when, without locks.
-- parameters: 1 the places (JSON: [number, partition, due_at (ms), id]).
-- answers: number, fence, lease_until (ms).
SELECT wanted.nth, fence, lease_until
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at AND task.id = wanted.id
    AND task.state IN (4, 5)

-- name: read_in_flight_by_key
-- Reads what `read_in_flight` reads, for tasks that are few or lie close together in the key.
-- holes: {places} a condition on places, of numbers only.
-- answers: id, fence, lease_until (ms).
SELECT id, fence, lease_until FROM task FORCE INDEX (PRIMARY) WHERE {places} AND state IN (4, 5)
