-- Moving a partition from one database to another: the steps in the catalog, and the copies.

-- name: list_alive
-- Lists which of these tasks exist, wherever they are.
-- parameters: 1 the places (JSON: [number, partition, due_at (ms), id]).
-- answers: their numbers.
SELECT wanted.nth
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN registry FORCE INDEX (registry_newest) ON registry.id = wanted.id AND registry.partition_no = wanted.partition_no

-- name: lock_moves
-- Locks the moves of this cluster for as long as this connection lasts; answers 1 if it got the lock. Waits a few
-- seconds: the server may not have noticed yet that the connection of the last mover is gone. The comments: as in
-- `lock_maintenance` of buckets.sql. In the catalog.
SELECT CAST(GET_LOCK(CONCAT('punctual move ',
    /*!90600 LEFT(SHA2(DATABASE(), 256), 40 + 0 * LENGTH(' */ SHA1(DATABASE()) /*!90600 ')) */
), 5) AS SIGNED)

-- name: begin
-- Begins a move.
-- parameters: 1 partition, 2 from this database, 3 to this database, 4 term.
INSERT INTO partition_move (partition_no, from_shard, to_shard, step, term, closed_until) VALUES (?, ?, ?, 1, ?, 0)

-- name: list_outdated_engines
-- Lists engines that are alive and cannot follow a move: they name fewer databases, or are of an older version.
-- parameters: 1 databases.
SELECT name, names_databases FROM engine
WHERE alive_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 AND names_databases < ?
ORDER BY name

-- name: delete_bodies
-- Deletes the long payloads of earlier copies.
-- parameters: 1 the places (JSON: [number, partition, due_at (ms), id]).
DELETE body FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN body FORCE INDEX (PRIMARY) ON body.partition_no = wanted.partition_no AND body.id = wanted.id

-- name: add_taken_books
-- Adds the account of a partition to the books, or subtracts it, with its rows. No writer has this slot.
-- parameters: 1 and 2 one or minus one, 3 partition.
INSERT INTO books (slot, namespace, queue, state, tasks, bytes)
SELECT -2, namespace, queue, state, ? * tasks, ? * bytes FROM taken_along WHERE partition_no = ?
ON DUPLICATE KEY UPDATE tasks = books.tasks + VALUES(tasks), bytes = books.bytes + VALUES(bytes)

-- name: holds_bucket_lock
-- Answers 1 if this connection still has the lock of `lock_maintenance` of buckets.sql, and so had it all the time.
SELECT CAST(COALESCE(IS_USED_LOCK(CONCAT('punctual ',
    /*!90600 LEFT(SHA2(DATABASE(), 256), 40 + 0 * LENGTH(' */ SHA1(DATABASE()) /*!90600 ')) */
)) = CONNECTION_ID(), 0) AS SIGNED)

-- name: extend_closing
-- Records that the old place is about to be closed, or is kept closed a while longer. The clock is the catalog's.
-- parameters: 1 for how long (ms), 2 partition, 3 term.
UPDATE partition_move SET step = 2, closed_until = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 + ?
WHERE partition_no = ? AND term = ? AND step IN (1, 2)

-- name: add_taken_counters
-- Adds the tasks of a partition to the accepted ones of this database, or subtracts them.
-- parameters: 1 one or minus one, 2 partition.
INSERT INTO counters (slot, name, value)
SELECT -2, 'accepted', ? * COALESCE(SUM(tasks), 0) FROM taken_along WHERE partition_no = ?
ON DUPLICATE KEY UPDATE value = counters.value + VALUES(value)

-- name: delete_copies
-- Deletes copies that are no longer like their originals, without what belongs to their tasks.
-- parameters: 1 the places (JSON: [number, partition, due_at (ms), id]).
DELETE task FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at AND task.id = wanted.id

-- name: end
-- Ends a move that is done or undone.
-- parameters: 1 partition, 2 step, 3 term.
DELETE FROM partition_move WHERE partition_no = ? AND step = ? AND term = ?

-- name: list_in_flight
-- Lists the leases of a piece, for the entries by which their ends are found.
-- parameters: 1 to 5 after this row (partition, due_at, partition, due_at, id; exclusive), 6 to 10 up to this row
-- (the same five; inclusive).
SELECT due_at, id, fence, lease_until FROM task FORCE INDEX (PRIMARY)
WHERE ((partition_no = ? AND due_at > ?) OR (partition_no = ? AND due_at = ? AND id > ?))
    AND ((partition_no = ? AND due_at < ?) OR (partition_no = ? AND due_at = ? AND id <= ?))
    AND state IN (4, 5)

-- name: insert_rows
-- Inserts whole rows at their new place.
-- parameters: of each row: 1 to 39 the columns in their order.
-- holes: {rows} repeated for each row.
INSERT INTO task (
    partition_no, due_at, id, namespace, task_id, task_version, queue, kind, priority, state, fence, attempt,
    max_attempts, execute_at, fired_at, created_at, updated_at, keep_until, place_due_at, timeout_ms,
    deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log, result_code, result_msg, result_is_json, result_body, last_error, payload_is_json, payload,
    history
)
VALUES {rows: (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)}

-- name: delete_remaining_bodies
-- Deletes what a partition that left has in `body`.
-- parameters: 1 partition, 2 limit.
DELETE FROM body WHERE partition_no = ? LIMIT ?

-- name: delete_remaining_lookups
-- Deletes what a partition that left has in `lookup`.
-- parameters: 1 partition, 2 limit.
DELETE FROM lookup WHERE partition_no = ? LIMIT ?

-- name: delete_remaining_moved_places
-- Deletes what a partition that left has in `moved`.
-- parameters: 1 partition, 2 limit.
DELETE FROM moved WHERE partition_no = ? LIMIT ?

-- name: delete_remaining_entries
-- Deletes what a partition that left has in `registry`.
-- parameters: 1 partition, 2 limit.
DELETE FROM registry WHERE partition_no = ? LIMIT ?

-- name: delete_remaining_tasks
-- Deletes what a partition that left has in `task`.
-- parameters: 1 partition, 2 limit.
DELETE FROM task WHERE partition_no = ? LIMIT ?

-- name: list
-- Lists the moves that are not over; the last column is 1 if anybody may open the closed partition again.
SELECT partition_no, from_shard, to_shard, step, term, CAST(closed_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 AS SIGNED)
FROM partition_move ORDER BY partition_no

-- name: delete_lookups
-- Deletes the terms by which earlier copies are looked up.
-- parameters: 1 the places (JSON: [number, partition, due_at (ms), id]).
DELETE lookup FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN lookup FORCE INDEX (lookup_of) ON lookup.partition_no = wanted.partition_no AND lookup.id = wanted.id

-- name: insert_moved_places
-- Inserts the places of copied tasks that are not where their references say.
-- parameters: 1 the places (JSON: [number, partition, due_at (ms), id]).
INSERT INTO moved (partition_no, id, due_at)
SELECT task.partition_no, task.id, task.due_at
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at AND task.id = wanted.id
    AND task.due_at <> task.place_due_at
ON DUPLICATE KEY UPDATE due_at = VALUES(due_at)

-- name: delete_moved_places
-- Deletes the places to which earlier copies had moved.
-- parameters: 1 the places (JSON: [number, partition, due_at (ms), id]).
DELETE moved FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = wanted.partition_no AND moved.id = wanted.id

-- name: list_reply_namespaces
-- Lists the namespaces that have replies here.
SELECT DISTINCT CAST(namespace AS CHAR) FROM reply

-- name: reopen_overdue
-- Sets a move back to copying whose mover did not keep the partition closed, under a new term, which that mover does
-- not know.
-- parameters: 1 new term, 2 partition, 3 expected term.
UPDATE partition_move SET step = 1, term = ?
WHERE partition_no = ? AND term = ? AND step = 2 AND closed_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000

-- name: set_placement
-- Sets the new database of a partition, in the transaction that decides.
-- parameters: 1 database, 2 partition.
UPDATE placement SET shard_no = ? WHERE partition_no = ?

-- name: read_rows
-- Reads whole rows, each with its long payload or NULL after its columns, in one snapshot.
-- parameters: 1 the places (JSON: [number, partition, due_at (ms), id]).
SELECT
    task.partition_no, task.due_at, task.id, task.namespace, task.task_id, task.task_version, task.queue,
    task.kind, task.priority, task.state, task.fence, task.attempt, task.max_attempts, task.execute_at,
    task.fired_at, task.created_at, task.updated_at, task.keep_until, task.place_due_at, task.timeout_ms,
    task.deadline_ms, task.lease_executor, task.lease_since, task.lease_until, task.cancel_requested,
    task.retry, task.labels, task.traceparent, task.demands, task.progress, task.log, task.result_code, task.result_msg,
    task.result_is_json, task.result_body, task.last_error, task.payload_is_json, task.payload, task.history,
    body.payload
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at AND task.id = wanted.id
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id

-- name: insert_entries
-- Inserts the registry's entries of copied tasks. Overwrites an entry of a task that no longer exists.
-- parameters: 1 the places (JSON: [number, partition, due_at (ms), id]).
INSERT INTO registry (partition_no, namespace, task_id, task_version, id, due_at)
SELECT task.partition_no, task.namespace, task.task_id, task.task_version, task.id, task.place_due_at
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at AND task.id = wanted.id
ON DUPLICATE KEY UPDATE id = VALUES(id), due_at = VALUES(due_at)

-- name: delete_entries
-- Deletes the entries of tasks that no longer exist.
-- parameters: 1 the places (JSON: [number, partition, due_at (ms), id]).
DELETE registry FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN registry FORCE INDEX (registry_newest) ON registry.id = wanted.id AND registry.partition_no = wanted.partition_no

-- name: list_reply_sums
-- Lists the replies of a namespace in order, each with a checksum.
-- parameters: 1 namespace, 2 after this key, 3 up to this key (bytes, inclusive), 4 limit.
SELECT reply_key, CAST(CONCAT_WS('|', request_hash, status, keep_until, SHA2(body, 256)) AS CHAR) FROM reply
WHERE namespace = ? AND reply_key > ? AND reply_key <= ?
ORDER BY reply_key LIMIT ?

-- name: delete_remaining_replies
-- Deletes the replies of a partition that left.
-- parameters: 1 namespace, 2 limit.
DELETE FROM reply WHERE namespace = ? LIMIT ?

-- name: list_row_sums
-- Lists each row of a piece: its key, its checksum as in `sum_piece`, and about how many bytes it has.
-- parameters: 1 to 5 after this row (partition, due_at, partition, due_at, id; exclusive), 6 to 10 up to this row
-- (the same five; inclusive).
SELECT due_at, id, CAST(
    CAST(CONV(LEFT(SHA2(CONCAT_WS('|', due_at, id, CAST(namespace AS BINARY), task_id, task_version, CAST(queue AS BINARY),
        CAST(kind AS BINARY), priority, state, fence,
        attempt, max_attempts, execute_at, IFNULL(fired_at, '-'), created_at, updated_at, IFNULL(keep_until, '-'),
        place_due_at, IFNULL(timeout_ms, '-'), IFNULL(deadline_ms, '-'), IFNULL(SHA2(lease_executor, 256), '-'),
        IFNULL(lease_since, '-'), IFNULL(lease_until, '-'), cancel_requested, IFNULL(SHA2(retry, 256), '-'),
        IFNULL(SHA2(labels, 256), '-'), IFNULL(SHA2(traceparent, 256), '-'), IFNULL(SHA2(demands, 256), '-'),
        IFNULL(SHA2(progress, 256), '-'), IFNULL(SHA2(log, 256), '-'), IFNULL(result_code, '-'),
        IFNULL(SHA2(result_msg, 256), '-'), IFNULL(result_is_json, '-'), IFNULL(SHA2(result_body, 256), '-'),
        IFNULL(SHA2(last_error, 256), '-'), payload_is_json, IFNULL(SHA2(payload, 256), '-'), SHA2(history, 256)), 256), 16), 16, 10) AS UNSIGNED)
AS SIGNED), CAST(1000 + LENGTH(history) + IFNULL(LENGTH(result_msg), 0) + IFNULL(LENGTH(last_error), 0)
    + IFNULL(LENGTH(result_body), 0) + IF(payload IS NULL, 1000000, 0) AS SIGNED)
FROM task FORCE INDEX (PRIMARY)
WHERE ((partition_no = ? AND due_at > ?) OR (partition_no = ? AND due_at = ? AND id > ?))
    AND ((partition_no = ? AND due_at < ?) OR (partition_no = ? AND due_at = ? AND id <= ?))

-- name: find_piece_end
-- Finds the last row of the next piece; no row: the piece is the rest.
-- parameters: 1 to 5 after this row (partition, due_at, partition, due_at, id; exclusive), 6 rows to skip.
SELECT due_at, id FROM task FORCE INDEX (PRIMARY)
WHERE (partition_no = ? AND due_at > ?) OR (partition_no = ? AND due_at = ? AND id > ?)
ORDER BY partition_no, due_at, id LIMIT 1 OFFSET ?

-- name: sum_piece
-- Sums up a piece of a partition by account: rows, a checksum over all their columns, and the bytes of payloads of
-- waiting tasks. Equal checksums at both places mean equal rows. Long columns have checksums of their own, so that no
-- row is too long for a packet.
-- parameters: 1 to 5 after this row (partition, due_at, partition, due_at, id; exclusive), 6 to 10 up to this row
-- (the same five; inclusive).
SELECT namespace, queue, state, COUNT(*), CAST(BIT_XOR(
    CAST(CONV(LEFT(SHA2(CONCAT_WS('|', due_at, id, CAST(namespace AS BINARY), task_id, task_version, CAST(queue AS BINARY),
        CAST(kind AS BINARY), priority, state, fence,
        attempt, max_attempts, execute_at, IFNULL(fired_at, '-'), created_at, updated_at, IFNULL(keep_until, '-'),
        place_due_at, IFNULL(timeout_ms, '-'), IFNULL(deadline_ms, '-'), IFNULL(SHA2(lease_executor, 256), '-'),
        IFNULL(lease_since, '-'), IFNULL(lease_until, '-'), cancel_requested, IFNULL(SHA2(retry, 256), '-'),
        IFNULL(SHA2(labels, 256), '-'), IFNULL(SHA2(traceparent, 256), '-'), IFNULL(SHA2(demands, 256), '-'),
        IFNULL(SHA2(progress, 256), '-'), IFNULL(SHA2(log, 256), '-'), IFNULL(result_code, '-'),
        IFNULL(SHA2(result_msg, 256), '-'), IFNULL(result_is_json, '-'), IFNULL(SHA2(result_body, 256), '-'),
        IFNULL(SHA2(last_error, 256), '-'), payload_is_json, IFNULL(SHA2(payload, 256), '-'), SHA2(history, 256)), 256), 16), 16, 10) AS UNSIGNED)
) AS SIGNED), CAST(SUM(CASE
    WHEN lease_until IS NOT NULL OR keep_until IS NOT NULL THEN 0
    WHEN payload_is_json >= 2 THEN CAST(SUBSTRING_INDEX(payload, ' ', 1) AS SIGNED)
    WHEN payload IS NOT NULL THEN LENGTH(payload)
    ELSE (SELECT LENGTH(body.payload) FROM body WHERE body.partition_no = task.partition_no AND body.id = task.id)
END) AS SIGNED)
FROM task FORCE INDEX (PRIMARY)
WHERE ((partition_no = ? AND due_at > ?) OR (partition_no = ? AND due_at = ? AND id > ?))
    AND ((partition_no = ? AND due_at < ?) OR (partition_no = ? AND due_at = ? AND id <= ?))
GROUP BY namespace, queue, state
ORDER BY namespace, queue, state

-- name: insert_taken_along
-- Inserts the account that a partition takes along.
-- parameters: of each row: 1 partition, 2 namespace, 3 queue, 4 state code, 5 tasks, 6 bytes of payloads of waiting
-- tasks.
-- holes: {rows} repeated for each row.
INSERT INTO taken_along (partition_no, namespace, queue, state, tasks, bytes)
VALUES {rows: (?, ?, ?, ?, ?, ?)}

-- name: delete_taken_along
-- Deletes the account that a partition takes along.
-- parameters: 1 partition.
DELETE FROM taken_along WHERE partition_no = ?

-- name: set_step
-- Moves from one step to another, if term and step are the expected ones.
-- parameters: 1 term, 2 step, 3 partition, 4 expected term, 5 expected step.
UPDATE partition_move SET term = ?, step = ? WHERE partition_no = ? AND term = ? AND step = ?
