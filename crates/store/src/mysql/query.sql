-- Reading and searching tasks.

-- name: find_oldest_above
-- Finds the oldest task of this database above an id, or NULL.
-- parameters: 1 id.
SELECT MIN(id) FROM registry WHERE id > ?

-- name: find_newest_below
-- Finds the newest task of this database below an id, or NULL.
-- parameters: 1 id.
SELECT MAX(id) FROM registry WHERE id < ?

-- name: find_due_bound
-- Finds how far one search along the due times of a partition goes: the task after a number of tasks; no row: to the
-- end of the range.
-- parameters: 1 partition, 2 due from (ms), 3 due before (ms), 4 or due at (ms) and 5 below this id, 6 tasks to skip.
SELECT due_at, id FROM task FORCE INDEX (PRIMARY)
WHERE partition_no = ? AND due_at >= ? AND (due_at < ? OR (due_at = ? AND id < ?))
ORDER BY partition_no DESC, due_at DESC, id DESC LIMIT 1 OFFSET ?

-- name: find_due_bound_rising
-- Finds how far one search along the due times of a partition goes, the earliest first: the task after a number of
-- tasks; no row: to the end of the range.
-- parameters: 1 partition, 2 due after (ms), 3 or due at (ms) and 4 from this id on, 5 due before (ms), 6 or due at
-- (ms) and 7 below this id, 8 tasks to skip.
SELECT due_at, id FROM task FORCE INDEX (PRIMARY)
WHERE partition_no = ? AND (due_at > ? OR (due_at = ? AND id >= ?)) AND (due_at < ? OR (due_at = ? AND id < ?))
ORDER BY partition_no, due_at, id LIMIT 1 OFFSET ?

-- name: read_latest_versions
-- Reads the highest version of each of a few callers' ids.
-- parameters: 1 the ids (JSON: [partition, task_id]), 2 namespace.
SELECT STRAIGHT_JOIN
    task.id, task.partition_no, task.namespace, task.task_id, task.task_version, queue, kind, priority, state, fence,
    attempt, max_attempts, execute_at, task.due_at, fired_at, created_at, updated_at, keep_until, place_due_at,
    timeout_ms, deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log, result_code, result_msg, result_is_json, result_body, last_error, payload_is_json,
    COALESCE(task.payload, body.payload), history
FROM JSON_TABLE(?, '$[*]' COLUMNS (partition_no INT PATH '$[0]', task_id BIGINT PATH '$[1]')) AS wanted
JOIN registry FORCE INDEX (PRIMARY) ON registry.partition_no = wanted.partition_no AND registry.namespace = ?
    AND registry.task_id = wanted.task_id
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = registry.partition_no AND moved.id = registry.id
JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = registry.partition_no AND task.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task.id = registry.id
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
WHERE NOT EXISTS (
    SELECT 1 FROM registry AS newer FORCE INDEX (PRIMARY)
    WHERE newer.partition_no = registry.partition_no AND newer.namespace = registry.namespace
        AND newer.task_id = registry.task_id AND newer.task_version > registry.task_version
)

-- name: list
-- Searches tasks, the newest first, without histories, in a range of ids that bounds the work; only in partitions
-- that this database hosts.
-- parameters: 1 below this id, 2 down to this id; each other condition holds only if it is not NULL, and is given
-- twice: 3 and 4 namespace, 5 and 6 queue, 7 and 8 state code, 9 and 10 kind, 11 and 12 due from (ms), 13 and 14 due
-- before (ms), 15 and 16 a label in its current state in the text of all labels (the caller looks again: it may be in
-- another's value), 17 and 18 changed from (ms), 19 and 20 a text in its last error, 21 limit.
SELECT STRAIGHT_JOIN
    task.id, task.partition_no, task.namespace, task.task_id, task.task_version, queue, kind, priority, state, fence,
    attempt, max_attempts, execute_at, task.due_at, fired_at, created_at, updated_at, keep_until, place_due_at,
    timeout_ms, deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log, result_code, result_msg, result_is_json, result_body, last_error, payload_is_json,
    COALESCE(task.payload, body.payload), ''
FROM registry
JOIN (SELECT hosted.partition_no AS here_no FROM hosted FORCE INDEX (PRIMARY) WHERE hosted.state IN (1, 2)) AS here
    ON here.here_no = registry.partition_no
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = registry.partition_no AND moved.id = registry.id
JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = registry.partition_no AND task.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task.id = registry.id
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
WHERE registry.id < ? AND registry.id >= ?
    AND (? IS NULL OR task.namespace = ?)
    AND (? IS NULL OR queue = ?)
    AND (? IS NULL OR state = ?)
    AND (? IS NULL OR kind = ?)
    AND (? IS NULL OR task.due_at >= ?)
    AND (? IS NULL OR task.due_at < ?)
    AND (? IS NULL OR INSTR(labels, ?) > 0)
    AND (? IS NULL OR updated_at >= ?)
    AND (? IS NULL OR LOCATE(CAST(? AS BINARY), CAST(last_error AS BINARY)) > 0)
ORDER BY registry.id DESC LIMIT ?

-- name: list_by_due
-- Searches along the due times of one partition, the latest first, without histories, in a range that bounds the
-- work.
-- parameters: 1 partition, 2 due from (ms), 3 but not at (ms) and 4 below this id, 5 due before (ms), 6 or due at
-- (ms) and 7 below this id; each other condition holds only if it is not NULL, and is given twice: 8 and 9 namespace,
-- 10 and 11 queue, 12 and 13 state code, 14 and 15 kind, 16 and 17 a label in its current state in the text of all labels
-- (the caller looks again: it may be in another's value), 18 and 19 changed from (ms), 20 and 21 a text in its last
-- error, 22 limit.
SELECT STRAIGHT_JOIN
    task.id, task.partition_no, task.namespace, task.task_id, task.task_version, queue, kind, priority, state, fence,
    attempt, max_attempts, execute_at, task.due_at, fired_at, created_at, updated_at, keep_until, place_due_at,
    timeout_ms, deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log, result_code, result_msg, result_is_json, result_body, last_error, payload_is_json,
    COALESCE(task.payload, body.payload), ''
FROM task FORCE INDEX (PRIMARY)
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
WHERE task.partition_no = ? AND task.due_at >= ? AND NOT (task.due_at = ? AND task.id < ?)
    AND (task.due_at < ? OR (task.due_at = ? AND task.id < ?))
    AND (? IS NULL OR task.namespace = ?)
    AND (? IS NULL OR queue = ?)
    AND (? IS NULL OR state = ?)
    AND (? IS NULL OR kind = ?)
    AND (? IS NULL OR INSTR(labels, ?) > 0)
    AND (? IS NULL OR updated_at >= ?)
    AND (? IS NULL OR LOCATE(CAST(? AS BINARY), CAST(last_error AS BINARY)) > 0)
ORDER BY task.partition_no DESC, task.due_at DESC, task.id DESC LIMIT ?

-- name: list_by_due_rising
-- Searches along the due times of one partition, the earliest first, without histories, in a range that bounds the
-- work.
-- parameters: 1 partition, 2 due after (ms), 3 or due at (ms) and 4 from this id on, 5 due before (ms), 6 or due at
-- (ms) and 7 below this id; each other condition holds only if it is not NULL, and is given twice: 8 and 9 namespace,
-- 10 and 11 queue, 12 and 13 state code, 14 and 15 kind, 16 and 17 a label in its current state in the text of all labels
-- (the caller looks again: it may be in another's value), 18 and 19 changed from (ms), 20 and 21 a text in its last
-- error, 22 limit.
SELECT STRAIGHT_JOIN
    task.id, task.partition_no, task.namespace, task.task_id, task.task_version, queue, kind, priority, state, fence,
    attempt, max_attempts, execute_at, task.due_at, fired_at, created_at, updated_at, keep_until, place_due_at,
    timeout_ms, deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log, result_code, result_msg, result_is_json, result_body, last_error, payload_is_json,
    COALESCE(task.payload, body.payload), ''
FROM task FORCE INDEX (PRIMARY)
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
WHERE task.partition_no = ? AND (task.due_at > ? OR (task.due_at = ? AND task.id >= ?))
    AND (task.due_at < ? OR (task.due_at = ? AND task.id < ?))
    AND (? IS NULL OR task.namespace = ?)
    AND (? IS NULL OR queue = ?)
    AND (? IS NULL OR state = ?)
    AND (? IS NULL OR kind = ?)
    AND (? IS NULL OR INSTR(labels, ?) > 0)
    AND (? IS NULL OR updated_at >= ?)
    AND (? IS NULL OR LOCATE(CAST(? AS BINARY), CAST(last_error AS BINARY)) > 0)
ORDER BY task.partition_no, task.due_at, task.id LIMIT ?

-- name: list_by_term
-- Searches as `list`, among the tasks that have a term in `lookup`.
-- parameters: 1 term, 2 below this id, 3 down to this id; each other condition holds only if it is not NULL, and is
-- given twice: 4 and 5 namespace, 6 and 7 queue, 8 and 9 state code, 10 and 11 kind, 12 and 13 due from (ms), 14 and
-- 15 due before (ms), 16 and 17 a label in its current state in the text of all labels, 18 and 19 changed from (ms), 20 and
-- 21 a text in its last error, 22 limit.
SELECT STRAIGHT_JOIN
    task.id, task.partition_no, task.namespace, task.task_id, task.task_version, queue, kind, priority, state, fence,
    attempt, max_attempts, execute_at, task.due_at, fired_at, created_at, updated_at, keep_until, place_due_at,
    timeout_ms, deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log, result_code, result_msg, result_is_json, result_body, last_error, payload_is_json,
    COALESCE(task.payload, body.payload), ''
FROM lookup FORCE INDEX (PRIMARY)
JOIN registry FORCE INDEX (registry_newest) ON registry.id = lookup.id AND registry.partition_no = lookup.partition_no
JOIN (SELECT hosted.partition_no AS here_no FROM hosted FORCE INDEX (PRIMARY) WHERE hosted.state IN (1, 2)) AS here
    ON here.here_no = registry.partition_no
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = registry.partition_no AND moved.id = registry.id
JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = registry.partition_no AND task.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task.id = registry.id
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
WHERE lookup.term = ? AND lookup.id < ? AND lookup.id >= ?
    AND (? IS NULL OR task.namespace = ?)
    AND (? IS NULL OR queue = ?)
    AND (? IS NULL OR state = ?)
    AND (? IS NULL OR kind = ?)
    AND (? IS NULL OR task.due_at >= ?)
    AND (? IS NULL OR task.due_at < ?)
    AND (? IS NULL OR INSTR(labels, ?) > 0)
    AND (? IS NULL OR updated_at >= ?)
    AND (? IS NULL OR LOCATE(CAST(? AS BINARY), CAST(last_error AS BINARY)) > 0)
ORDER BY lookup.term DESC, lookup.id DESC LIMIT ?

-- name: list_rising
-- Searches tasks, the oldest first, without histories, in a range of ids that bounds the work; only in partitions
-- that this database hosts.
-- parameters: 1 below this id, 2 down to this id; each other condition holds only if it is not NULL, and is given
-- twice: 3 and 4 namespace, 5 and 6 queue, 7 and 8 state code, 9 and 10 kind, 11 and 12 due from (ms), 13 and 14 due
-- before (ms), 15 and 16 a label in its current state in the text of all labels (the caller looks again: it may be in
-- another's value), 17 and 18 changed from (ms), 19 and 20 a text in its last error, 21 limit.
SELECT STRAIGHT_JOIN
    task.id, task.partition_no, task.namespace, task.task_id, task.task_version, queue, kind, priority, state, fence,
    attempt, max_attempts, execute_at, task.due_at, fired_at, created_at, updated_at, keep_until, place_due_at,
    timeout_ms, deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log, result_code, result_msg, result_is_json, result_body, last_error, payload_is_json,
    COALESCE(task.payload, body.payload), ''
FROM registry FORCE INDEX (registry_newest)
JOIN (SELECT hosted.partition_no AS here_no FROM hosted FORCE INDEX (PRIMARY) WHERE hosted.state IN (1, 2)) AS here
    ON here.here_no = registry.partition_no
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = registry.partition_no AND moved.id = registry.id
JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = registry.partition_no AND task.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task.id = registry.id
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
WHERE registry.id < ? AND registry.id >= ?
    AND (? IS NULL OR task.namespace = ?)
    AND (? IS NULL OR queue = ?)
    AND (? IS NULL OR state = ?)
    AND (? IS NULL OR kind = ?)
    AND (? IS NULL OR task.due_at >= ?)
    AND (? IS NULL OR task.due_at < ?)
    AND (? IS NULL OR INSTR(labels, ?) > 0)
    AND (? IS NULL OR updated_at >= ?)
    AND (? IS NULL OR LOCATE(CAST(? AS BINARY), CAST(last_error AS BINARY)) > 0)
ORDER BY registry.id LIMIT ?

-- name: read_tasks
-- Reads whole tasks. One statement sees one snapshot: a task that moves in time meanwhile is seen before or after,
-- never in between.
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
JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = COALESCE(moved.due_at, wanted.due_at)
    AND task.id = wanted.id
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id

-- name: lock_tasks
-- Reads whole tasks, as `read_tasks`, and locks them until the end of the transaction. Each row is the latest one,
-- not one of a snapshot: a task that moved in time while this waited for it is not found, and the transaction must be
-- run again.
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
JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = COALESCE(moved.due_at, wanted.due_at)
    AND task.id = wanted.id
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
FOR UPDATE /*!80001 OF moved, task, body */

-- name: read_version
-- Reads one version of a caller's id.
-- parameters: 1 partition, 2 namespace, 3 task_id, 4 task_version.
SELECT STRAIGHT_JOIN
    task.id, task.partition_no, task.namespace, task.task_id, task.task_version, queue, kind, priority, state, fence,
    attempt, max_attempts, execute_at, task.due_at, fired_at, created_at, updated_at, keep_until, place_due_at,
    timeout_ms, deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log, result_code, result_msg, result_is_json, result_body, last_error, payload_is_json,
    COALESCE(task.payload, body.payload), history
FROM registry
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = registry.partition_no AND moved.id = registry.id
JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = registry.partition_no AND task.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task.id = registry.id
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
WHERE registry.partition_no = ? AND registry.namespace = ? AND registry.task_id = ? AND registry.task_version = ?

-- name: list_versions
-- Lists the versions of a caller's id, the highest first.
-- parameters: 1 partition, 2 namespace, 3 task_id, 4 limit.
SELECT STRAIGHT_JOIN
    task.id, task.partition_no, task.namespace, task.task_id, task.task_version, queue, kind, priority, state, fence,
    attempt, max_attempts, execute_at, task.due_at, fired_at, created_at, updated_at, keep_until, place_due_at,
    timeout_ms, deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log, result_code, result_msg, result_is_json, result_body, last_error, payload_is_json,
    COALESCE(task.payload, body.payload), history
FROM registry
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = registry.partition_no AND moved.id = registry.id
JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = registry.partition_no AND task.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task.id = registry.id
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
WHERE registry.partition_no = ? AND registry.namespace = ? AND registry.task_id = ?
ORDER BY registry.task_version DESC LIMIT ?
