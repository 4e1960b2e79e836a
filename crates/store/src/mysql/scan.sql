-- Finding tasks whose time comes, or has passed.

-- name: find_first
-- Finds when the first waiting task of a range of the past is due. Nearly all rows there are finished, and reading
-- the columns of `scan` for each of them would cost three times as much.
-- parameters: 1 partition, 2 due after (ms, exclusive), 3 due until (ms, inclusive).
SELECT due_at
FROM task FORCE INDEX (PRIMARY)
WHERE partition_no = ? AND due_at > ? AND due_at <= ? AND state IN (1, 2, 3, 6, 7)
ORDER BY due_at, id LIMIT 1

-- name: scan_instant
-- Lists the rest of the tasks that are due at one instant, as `scan`. A statement of its own, because a condition on
-- (due_at, id) would not be a range of the key, and an instant may have a hundred thousand tasks.
-- parameters: 1 partition, 2 the instant (ms), 3 after this id, 4 limit.
SELECT id, place_due_at, due_at, fence, namespace, queue, priority, task_id, task_version, execute_at, deadline_ms,
    state, fired_at, attempt, demands, kind, payload_is_json, payload, max_attempts,
    timeout_ms, labels, traceparent
FROM task FORCE INDEX (PRIMARY)
WHERE partition_no = ? AND due_at = ? AND id > ? AND state IN (1, 2, 3, 6, 7)
ORDER BY id LIMIT ?

-- name: read_unfinished
-- Reads tasks that a walk passed while they were unfinished: those that still are, in their present state. Columns as
-- in `scan`.
-- parameters: 1 the places (JSON: [number, partition, due_at (ms), id], in the order of the key).
SELECT task.id, place_due_at, task.due_at, fence, namespace, queue, priority, task_id, task_version, execute_at,
    deadline_ms, state, fired_at, attempt, demands, kind, payload_is_json, payload, max_attempts,
    timeout_ms, labels, traceparent
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at AND task.id = wanted.id
    AND task.state NOT IN (8, 9, 10, 11)

-- name: scan
-- Lists the waiting tasks of one partition in order of (due_at, id).
-- parameters: 1 partition, 2 due after (ms, exclusive), 3 due until (ms, inclusive), 4 limit.
SELECT id, place_due_at, due_at, fence, namespace, queue, priority, task_id, task_version, execute_at, deadline_ms,
    state, fired_at, attempt, demands, kind, payload_is_json, payload, max_attempts,
    timeout_ms, labels, traceparent
FROM task FORCE INDEX (PRIMARY)
WHERE partition_no = ? AND due_at > ? AND due_at <= ? AND state IN (1, 2, 3, 6, 7)
ORDER BY due_at, id LIMIT ?

-- name: walk_unfinished
-- Lists the unfinished tasks among those that `walk` lists, for a short range: nothing else of it need be sent.
-- parameters: 1 partition, 2 due_at (ms), 3 due before (ms), 4 partition, 5 due_at (ms), 6 after this id, 7 limit.
SELECT due_at, id
FROM task FORCE INDEX (PRIMARY)
WHERE ((partition_no = ? AND due_at > ? AND due_at < ?) OR (partition_no = ? AND due_at = ? AND id > ?))
    AND state NOT IN (8, 9, 10, 11)
ORDER BY partition_no, due_at, id LIMIT ?

-- name: walk
-- Lists tasks of one partition after a place, in order, in any state: what may be passed for good.
-- parameters: 1 partition, 2 due_at (ms), 3 due before (ms), 4 partition, 5 due_at (ms), 6 after this id, 7 limit.
SELECT due_at, id, state IN (8, 9, 10, 11)
FROM task FORCE INDEX (PRIMARY)
WHERE (partition_no = ? AND due_at > ? AND due_at < ?) OR (partition_no = ? AND due_at = ? AND id > ?)
ORDER BY partition_no, due_at, id LIMIT ?

-- name: find_overdue_bound
-- Finds where a walk over a number of rows of one partition ends, in any state; no row: the range has fewer. The
-- state is read so that the server searches a range of the key: without it, it would read the whole partition from
-- the key alone.
-- parameters: 1 partition, 2 due after (ms, exclusive), 3 due until (ms, inclusive), 4 partition, 5 due_at (ms),
-- 6 after this id, 7 rows to skip.
SELECT due_at, id, state
FROM task FORCE INDEX (PRIMARY)
WHERE (partition_no = ? AND due_at > ? AND due_at <= ?) OR (partition_no = ? AND due_at = ? AND id > ?)
ORDER BY partition_no, due_at, id LIMIT 1 OFFSET ?

-- name: list_overdue
-- Lists the tasks of one partition whose time has come and that have not fired: scheduled, dispatching or retrying.
-- The caller keeps the range short: its finished rows are read too, and not sent.
-- parameters: 1 partition, 2 due after (ms, exclusive), 3 due until (ms, inclusive), 4 partition, 5 due_at (ms),
-- 6 after this id, 7 limit.
SELECT due_at, id, place_due_at, fence
FROM task FORCE INDEX (PRIMARY)
WHERE ((partition_no = ? AND due_at > ? AND due_at <= ?) OR (partition_no = ? AND due_at = ? AND id > ?))
    AND state IN (1, 2, 7)
ORDER BY partition_no, due_at, id LIMIT ?
