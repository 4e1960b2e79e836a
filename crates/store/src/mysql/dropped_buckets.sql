-- The rows of a bucket that is being dropped, in `task_gone`: still read for answers (archive.rs), exported to the
-- archive (buckets/export.rs), and settled with the account (buckets/dropped.rs).

-- name: has_rows
-- Answers a row if `task_gone` has any tasks, settled or not.
SELECT 1 FROM task_gone LIMIT 1

-- name: restore_kept
-- Puts back the tasks of a batch that must be kept: a success may have become stopped between the last look and
-- `exchange`. Only of partitions that this database hosts. FORCE INDEX: after an exchange the server has no
-- statistics of the rows.
-- parameters: 1 to 6 after this row (partition, partition, due_at, partition, due_at, id; exclusive), 7 to 12 up to
-- this row (the same six; inclusive), 13 now (ms).
INSERT INTO task SELECT task_gone.* FROM task_gone FORCE INDEX (PRIMARY)
WHERE (task_gone.partition_no > ?
        OR (task_gone.partition_no = ? AND task_gone.due_at > ?)
        OR (task_gone.partition_no = ? AND task_gone.due_at = ? AND task_gone.id > ?))
    AND (task_gone.partition_no < ?
        OR (task_gone.partition_no = ? AND task_gone.due_at < ?)
        OR (task_gone.partition_no = ? AND task_gone.due_at = ? AND task_gone.id <= ?))
    AND (task_gone.state NOT IN (9, 10, 11) OR task_gone.keep_until > ?)
    AND task_gone.partition_no IN (SELECT hosted.partition_no FROM hosted WHERE hosted.state IN (1, 2))

-- name: delete_bodies
-- Deletes the long payloads of a batch. FORCE INDEX: after an exchange the server has no statistics of the rows.
-- parameters: 1 to 6 after this row (partition, partition, due_at, partition, due_at, id; exclusive), 7 to 12 up to
-- this row (the same six; inclusive), 13 now (ms).
DELETE body FROM task_gone FORCE INDEX (PRIMARY)
STRAIGHT_JOIN body FORCE INDEX (PRIMARY) ON body.partition_no = task_gone.partition_no AND body.id = task_gone.id
WHERE (task_gone.partition_no > ?
        OR (task_gone.partition_no = ? AND task_gone.due_at > ?)
        OR (task_gone.partition_no = ? AND task_gone.due_at = ? AND task_gone.id > ?))
    AND (task_gone.partition_no < ?
        OR (task_gone.partition_no = ? AND task_gone.due_at < ?)
        OR (task_gone.partition_no = ? AND task_gone.due_at = ? AND task_gone.id <= ?))
    AND task_gone.state IN (9, 10, 11) AND task_gone.keep_until <= ? AND task_gone.payload IS NULL

-- name: truncate
-- Empties `task_gone`, of which all rows are settled.
TRUNCATE TABLE task_gone

-- name: has_unsettled
-- Answers a row if there are tasks left to settle. FORCE INDEX: after an exchange the server has no statistics of the
-- rows.
-- parameters: 1 to 6 after this row (partition, partition, due_at, partition, due_at, id; exclusive).
SELECT 1 FROM task_gone FORCE INDEX (PRIMARY)
WHERE (partition_no > ?
        OR (partition_no = ? AND due_at > ?)
        OR (partition_no = ? AND due_at = ? AND id > ?))
LIMIT 1

-- name: delete_lookups
-- Deletes the terms by which the tasks of a batch are looked up. FORCE INDEX: after an exchange the server has no
-- statistics of the rows.
-- parameters: 1 to 6 after this row (partition, partition, due_at, partition, due_at, id; exclusive), 7 to 12 up to
-- this row (the same six; inclusive), 13 now (ms).
DELETE lookup FROM task_gone FORCE INDEX (PRIMARY)
STRAIGHT_JOIN lookup FORCE INDEX (lookup_of) ON lookup.partition_no = task_gone.partition_no AND lookup.id = task_gone.id
WHERE (task_gone.partition_no > ?
        OR (task_gone.partition_no = ? AND task_gone.due_at > ?)
        OR (task_gone.partition_no = ? AND task_gone.due_at = ? AND task_gone.id > ?))
    AND (task_gone.partition_no < ?
        OR (task_gone.partition_no = ? AND task_gone.due_at < ?)
        OR (task_gone.partition_no = ? AND task_gone.due_at = ? AND task_gone.id <= ?))
    AND task_gone.state IN (9, 10, 11) AND task_gone.keep_until <= ?

-- name: delete_moved_places
-- Deletes the places to which tasks of a batch had moved. FORCE INDEX: after an exchange the server has no statistics
-- of the rows.
-- parameters: 1 to 6 after this row (partition, partition, due_at, partition, due_at, id; exclusive), 7 to 12 up to
-- this row (the same six; inclusive), 13 now (ms).
DELETE moved FROM task_gone FORCE INDEX (PRIMARY)
STRAIGHT_JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = task_gone.partition_no AND moved.id = task_gone.id
WHERE (task_gone.partition_no > ?
        OR (task_gone.partition_no = ? AND task_gone.due_at > ?)
        OR (task_gone.partition_no = ? AND task_gone.due_at = ? AND task_gone.id > ?))
    AND (task_gone.partition_no < ?
        OR (task_gone.partition_no = ? AND task_gone.due_at < ?)
        OR (task_gone.partition_no = ? AND task_gone.due_at = ? AND task_gone.id <= ?))
    AND task_gone.state IN (9, 10, 11) AND task_gone.keep_until <= ?

-- name: count_batch
-- Counts the tasks that a batch takes out of the account. Only of partitions that this database hosts: the others
-- took their account along. FORCE INDEX: after an exchange the server has no statistics of the rows.
-- parameters: 1 to 6 after this row (partition, partition, due_at, partition, due_at, id; exclusive), 7 to 12 up to
-- this row (the same six; inclusive), 13 now (ms).
SELECT namespace, queue, state, COUNT(*), partition_no FROM task_gone FORCE INDEX (PRIMARY)
WHERE (partition_no > ?
        OR (partition_no = ? AND due_at > ?)
        OR (partition_no = ? AND due_at = ? AND id > ?))
    AND (partition_no < ?
        OR (partition_no = ? AND due_at < ?)
        OR (partition_no = ? AND due_at = ? AND id <= ?))
    AND state IN (9, 10, 11) AND keep_until <= ?
    AND partition_no IN (SELECT hosted.partition_no FROM hosted WHERE hosted.state IN (1, 2))
GROUP BY partition_no, namespace, queue, state

-- name: read_settled_place
-- Reads up to which row `task_gone` is settled.
SELECT partition_no, due_at, id FROM gone_to WHERE one = 1

-- name: delete_entries
-- Deletes the registry's entries of a batch, but not one that now belongs to another task. FORCE INDEX: after an
-- exchange the server has no statistics of the rows.
-- parameters: 1 to 6 after this row (partition, partition, due_at, partition, due_at, id; exclusive), 7 to 12 up to
-- this row (the same six; inclusive), 13 now (ms).
DELETE registry FROM task_gone FORCE INDEX (PRIMARY)
STRAIGHT_JOIN registry FORCE INDEX (PRIMARY) ON registry.partition_no = task_gone.partition_no
    AND registry.namespace = task_gone.namespace AND registry.task_id = task_gone.task_id
    AND registry.task_version = task_gone.task_version AND registry.id = task_gone.id
WHERE (task_gone.partition_no > ?
        OR (task_gone.partition_no = ? AND task_gone.due_at > ?)
        OR (task_gone.partition_no = ? AND task_gone.due_at = ? AND task_gone.id > ?))
    AND (task_gone.partition_no < ?
        OR (task_gone.partition_no = ? AND task_gone.due_at < ?)
        OR (task_gone.partition_no = ? AND task_gone.due_at = ? AND task_gone.id <= ?))
    AND task_gone.state IN (9, 10, 11) AND task_gone.keep_until <= ?

-- name: find_batch_end
-- Finds the last row of the next batch; no row: the batch is the rest. FORCE INDEX: after an exchange the server has
-- no statistics of the rows.
-- parameters: 1 to 6 after this row (partition, partition, due_at, partition, due_at, id; exclusive), 7 rows to skip.
SELECT partition_no, due_at, id FROM task_gone FORCE INDEX (PRIMARY)
WHERE (partition_no > ?
        OR (partition_no = ? AND due_at > ?)
        OR (partition_no = ? AND due_at = ? AND id > ?))
ORDER BY partition_no, due_at, id LIMIT 1 OFFSET ?

-- name: count_unsettled
-- Counts the tasks of a dropped bucket that the account still has, for a count of all rows; the last column is the
-- bytes of the payloads of waiting tasks. Only of partitions that this database hosts: the others took their account
-- along. FORCE INDEX: after an exchange the server has no statistics of the rows.
-- parameters: 1 to 6 after this row (partition, partition, due_at, partition, due_at, id; exclusive).
SELECT namespace, queue, state, COUNT(*), CAST(SUM(CASE
    WHEN lease_until IS NOT NULL OR keep_until IS NOT NULL THEN 0
    WHEN payload_is_json >= 2 THEN CAST(SUBSTRING_INDEX(payload, ' ', 1) AS SIGNED)
    WHEN payload IS NOT NULL THEN LENGTH(payload)
    ELSE (SELECT LENGTH(body.payload) FROM body WHERE body.partition_no = task_gone.partition_no AND body.id = task_gone.id)
END) AS SIGNED)
FROM task_gone FORCE INDEX (PRIMARY)
WHERE (partition_no > ?
        OR (partition_no = ? AND due_at > ?)
        OR (partition_no = ? AND due_at = ? AND id > ?))
    AND partition_no IN (SELECT hosted.partition_no FROM hosted WHERE hosted.state IN (1, 2))
GROUP BY namespace, queue, state

-- name: count_dropped_rows
-- As `count_unsettled`, for a count of the ledger: partition, namespace, queue, state, how many, and the sum of their
-- fingerprints (as `count_rows` of ledger.sql).
-- parameters: 1 to 6 after this row (partition, partition, due_at, partition, due_at, id; exclusive).
SELECT partition_no, namespace, queue, state, COUNT(*),
    CAST(SUM(CRC32(CONCAT_WS(' ', namespace, task_id, task_version, id, place_due_at))) AS SIGNED)
FROM task_gone FORCE INDEX (PRIMARY)
WHERE (partition_no > ?
        OR (partition_no = ? AND due_at > ?)
        OR (partition_no = ? AND due_at = ? AND id > ?))
    AND partition_no IN (SELECT hosted.partition_no FROM hosted WHERE hosted.state IN (1, 2))
GROUP BY partition_no, namespace, queue, state

-- name: save_settled_place
-- Saves up to which row `task_gone` is settled, in the transaction that settles it.
-- parameters: 1 partition, 2 due_at (ms), 3 id.
UPDATE gone_to SET partition_no = ?, due_at = ?, id = ? WHERE one = 1

-- name: bump_archive_generation
-- Counts that archives were published: a reader that knows another number lists them again.
INSERT INTO meta (name, value) VALUES ('archived', 1) ON DUPLICATE KEY UPDATE value = value + 1

-- name: read_exported_place
-- Reads up to which row `task_gone` is archived; no row: nothing is.
SELECT partition_no, due_at, id FROM gone_to WHERE one = 2

-- name: list_exportable
-- Lists whole tasks of `task_gone` that retention deletes now or later, for the archive, in the order of the key.
-- parameters: 1 to 6 after this row (partition, partition, due_at, partition, due_at, id; exclusive), 7 limit.
SELECT STRAIGHT_JOIN
    task.id, task.partition_no, task.namespace, task.task_id, task.task_version, queue, kind, priority, state, fence,
    attempt, max_attempts, execute_at, task.due_at, fired_at, created_at, updated_at, keep_until, place_due_at,
    timeout_ms, deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log, result_code, result_msg, result_is_json, result_body, last_error, payload_is_json,
    COALESCE(task.payload, body.payload), history
FROM task_gone AS task
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
WHERE (task.partition_no > ?
        OR (task.partition_no = ? AND task.due_at > ?)
        OR (task.partition_no = ? AND task.due_at = ? AND task.id > ?))
    AND task.state IN (9, 10, 11)
ORDER BY task.partition_no, task.due_at, task.id LIMIT ?

-- name: save_exported_place
-- Saves up to which row `task_gone` is archived.
-- parameters: 1 partition, 2 due_at (ms), 3 id.
INSERT INTO gone_to (one, partition_no, due_at, id) VALUES (2, ?, ?, ?)
ON DUPLICATE KEY UPDATE partition_no = VALUES(partition_no), due_at = VALUES(due_at), id = VALUES(id)

-- name: read_tasks
-- Reads whole tasks of a bucket that is being dropped, as `read_tasks` of query.sql: nobody changes it any more, and
-- it may be in no archive yet. If a long payload is missing, the task is settled and archived. One statement sees one
-- snapshot: a task that moves in time meanwhile is seen before or after, never in between.
-- parameters: 1 their references (JSON: [number in the list, partition, due_at (ms), id]).
-- answers: the columns of a task, then its number in the list.
SELECT STRAIGHT_JOIN
    task.id, task.partition_no, task.namespace, task.task_id, task.task_version, queue, kind, priority, state, fence,
    attempt, max_attempts, execute_at, task.due_at, fired_at, created_at, updated_at, keep_until, place_due_at,
    timeout_ms, deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log, result_code, result_msg, result_is_json, result_body, last_error, payload_is_json,
    COALESCE(task.payload, body.payload), history, wanted.nth
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = wanted.partition_no AND moved.id = wanted.id
JOIN task_gone AS task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = COALESCE(moved.due_at, wanted.due_at)
    AND task.id = wanted.id
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
WHERE task.payload IS NOT NULL OR body.payload IS NOT NULL

-- name: read_archive_generation
-- Reads how often archives of this database were published; no row: never.
SELECT value FROM meta WHERE name = 'archived'

-- name: read_version
-- Reads one version of a caller's id from a bucket that is being dropped, as `read_version` of query.sql. If a long
-- payload is missing, the task is settled and archived.
-- parameters: 1 partition, 2 namespace, 3 task_id, 4 task_version.
SELECT STRAIGHT_JOIN
    task.id, task.partition_no, task.namespace, task.task_id, task.task_version, queue, kind, priority, state, fence,
    attempt, max_attempts, execute_at, task.due_at, fired_at, created_at, updated_at, keep_until, place_due_at,
    timeout_ms, deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log, result_code, result_msg, result_is_json, result_body, last_error, payload_is_json,
    COALESCE(task.payload, body.payload), history
FROM registry
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = registry.partition_no AND moved.id = registry.id
JOIN task_gone AS task FORCE INDEX (PRIMARY)
    ON task.partition_no = registry.partition_no AND task.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task.id = registry.id
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
WHERE registry.partition_no = ? AND registry.namespace = ? AND registry.task_id = ? AND registry.task_version = ?
    AND (task.payload IS NOT NULL OR body.payload IS NOT NULL)

-- name: list_versions
-- Lists the versions of a caller's id in a bucket that is being dropped, the highest first, as `list_versions` of
-- query.sql. If a long payload is missing, the task is settled and archived.
-- parameters: 1 partition, 2 namespace, 3 task_id, 4 limit.
SELECT STRAIGHT_JOIN
    task.id, task.partition_no, task.namespace, task.task_id, task.task_version, queue, kind, priority, state, fence,
    attempt, max_attempts, execute_at, task.due_at, fired_at, created_at, updated_at, keep_until, place_due_at,
    timeout_ms, deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log, result_code, result_msg, result_is_json, result_body, last_error, payload_is_json,
    COALESCE(task.payload, body.payload), history
FROM registry
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = registry.partition_no AND moved.id = registry.id
JOIN task_gone AS task FORCE INDEX (PRIMARY)
    ON task.partition_no = registry.partition_no AND task.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task.id = registry.id
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
WHERE registry.partition_no = ? AND registry.namespace = ? AND registry.task_id = ?
    AND (task.payload IS NOT NULL OR body.payload IS NOT NULL)
ORDER BY registry.task_version DESC LIMIT ?
