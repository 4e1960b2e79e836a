-- Deleting what has been kept long enough: the walk, the spans, and tasks that ended early.

-- name: list_ended_early
-- Lists the references of tasks that were finished long before they were due, and whose retention ends in a slice of
-- time: by the term of the slice in `lookup`.
-- parameters: 1 term, 2 after this id, 3 limit.
SELECT lookup.partition_no, registry.due_at, lookup.id FROM lookup FORCE INDEX (PRIMARY)
STRAIGHT_JOIN registry FORCE INDEX (registry_newest)
    ON registry.id = lookup.id AND registry.partition_no = lookup.partition_no
WHERE lookup.term = ? AND lookup.id > ?
ORDER BY lookup.id LIMIT ?

-- name: read_cursor
-- Reads how far the walk of retention came (no row: it has not begun), up to which slice of time it has looked for
-- tasks that ended early, and whether this database has archives (`archive_place`).
SELECT name, value FROM meta
WHERE name IN ('walk_partition', 'walk_due_at', 'walk_id', 'ahead_slice', 'ahead_id', 'archive_place')

-- name: save_cursor
-- Saves how far retention came.
-- parameters: of each row: 1 name, 2 value.
-- holes: {rows} repeated for each row.
INSERT INTO meta (name, value)
VALUES {rows: (?, ?)}
ON DUPLICATE KEY UPDATE value = VALUES(value)

-- name: delete_finished
-- Deletes locked finished tasks with all that belongs to them. Never a success, which becomes stopped first.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id]).
DELETE task, registry, moved, body, lookup
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at AND task.id = wanted.id
    AND task.state IN (9, 10, 11)
LEFT JOIN registry FORCE INDEX (PRIMARY) ON registry.partition_no = task.partition_no AND registry.namespace = task.namespace
    AND registry.task_id = task.task_id AND registry.task_version = task.task_version
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = task.partition_no AND moved.id = task.id
LEFT JOIN body FORCE INDEX (PRIMARY) ON body.partition_no = task.partition_no AND body.id = task.id
LEFT JOIN lookup FORCE INDEX (lookup_of) ON lookup.partition_no = task.partition_no AND lookup.id = task.id

-- name: lock_expired
-- Reads tasks that may be retired or deleted, and locks them until the end of the transaction. The last columns are
-- the bytes of the payload (NULL if it is in `body`), and whether the task is asked to stop.
-- parameters: 1 the places (JSON: [number, partition, due_at (ms), id], in the order of the key).
SELECT wanted.nth, task.due_at, namespace, queue, state, fence, attempt, keep_until, CASE
        WHEN payload_is_json >= 2 THEN CAST(SUBSTRING_INDEX(payload, ' ', 1) AS SIGNED)
        ELSE LENGTH(payload) END,
    cancel_requested
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at AND task.id = wanted.id
FOR UPDATE /*!80001 OF task */

-- name: delete_expired_replies
-- Deletes answers that have expired.
-- parameters: 1 now (ms), 2 limit.
DELETE FROM reply WHERE keep_until <= ? ORDER BY keep_until LIMIT ?

-- name: find_span_before
-- Finds where the span before one ends.
-- parameters: 1 partition, 2 before this due_at (ms), or 3 partition, 4 at it and 5 before this id.
SELECT due_at, id FROM retention_span FORCE INDEX (PRIMARY)
WHERE (partition_no = ? AND due_at < ?) OR (partition_no = ? AND due_at = ? AND id < ?)
ORDER BY partition_no DESC, due_at DESC, id DESC LIMIT 1

-- name: list_due_spans
-- Lists spans whose look_at has come, the longest waiting first.
-- parameters: 1 now (ms), 2 limit.
SELECT partition_no, due_at, id FROM retention_span FORCE INDEX (retention_span_look)
WHERE look_at <= ? ORDER BY look_at LIMIT ?

-- name: delete_span
-- Deletes a span that has no tasks any more: it joins the next one.
-- parameters: 1 partition, 2 due_at (ms), 3 id.
DELETE FROM retention_span WHERE partition_no = ? AND due_at = ? AND id = ?

-- name: save_spans
-- Saves when to look at spans again.
-- parameters: of each row: 1 partition, 2 due_at (ms), 3 id, 4 look_at (ms).
-- holes: {rows} repeated for each row.
INSERT INTO retention_span (partition_no, due_at, id, look_at)
VALUES {rows: (?, ?, ?, ?)}
ON DUPLICATE KEY UPDATE look_at = VALUES(look_at)

-- name: insert_last_spans
-- Inserts the last spans of partitions, where they are missing.
-- parameters: 1 the partitions (JSON: array of numbers).
INSERT IGNORE INTO retention_span (partition_no, due_at, id, look_at)
SELECT wanted.partition_no, 9223372036854775807, 9223372036854775807, 0
FROM JSON_TABLE(?, '$[*]' COLUMNS (partition_no INT PATH '$')) AS wanted

-- name: list_span_rows
-- Lists the tasks of a span, in the order of the key.
-- parameters: 1 partition, 2 after this due_at (ms), 3 until this due_at (ms), or 4 partition, 5 at the first and
-- 6 after this id; 7 limit.
SELECT partition_no, due_at, id, state, keep_until FROM task FORCE INDEX (PRIMARY)
WHERE (partition_no = ? AND due_at > ? AND due_at <= ?) OR (partition_no = ? AND due_at = ? AND id > ?)
ORDER BY partition_no, due_at, id LIMIT ?

-- name: walk
-- Lists tasks of one partition after a place, in the order of the key, in any state, so that the limit bounds the
-- work. Answers the place, and whether retention has something to do there: a success whose retention is over, or
-- another finished task whose retention is over and that is due after an instant.
-- parameters: 1 that instant (ms), 2 now (ms), 3 partition, 4 due_at (ms), 5 partition, 6 due_at (ms), 7 after this
-- id, 8 limit.
SELECT partition_no, due_at, id, (state = 8 OR (state IN (9, 10, 11) AND due_at > ?)) AND keep_until <= ?
FROM task FORCE INDEX (PRIMARY)
WHERE (partition_no = ? AND due_at > ?) OR (partition_no = ? AND due_at = ? AND id > ?)
ORDER BY partition_no, due_at, id LIMIT ?

-- name: walk_next_partition
-- Lists as `walk`, from the first task of the next partition on.
-- parameters: 1 that instant (ms), 2 now (ms), 3 partition, 4 limit.
SELECT partition_no, due_at, id, (state = 8 OR (state IN (9, 10, 11) AND due_at > ?)) AND keep_until <= ?
FROM task FORCE INDEX (PRIMARY)
WHERE partition_no > ?
ORDER BY partition_no, due_at, id LIMIT ?
