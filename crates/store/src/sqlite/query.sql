-- Reading, searching and scanning tasks.

-- name: find_oldest_above
-- Finds the oldest task above an id, or NULL.
-- parameters: ?1 id.
SELECT min(id) FROM task WHERE id > ?1

-- name: find_newest_below
-- Finds the newest task below an id, or NULL.
-- parameters: ?1 id.
SELECT max(id) FROM task WHERE id < ?1

-- name: find_due_bound
-- Finds how far one search along the due times of waiting tasks goes in a partition: the task after a number of
-- tasks; no row: to the end of the range.
-- parameters: ?1 partition, ?2 due from (ms), ?3 due to (ms) and ?4 below this id there, ?5 tasks to skip.
SELECT wait_at, id FROM task
WHERE partition = ?1 AND wait_at >= ?2 AND wait_at <= ?3 AND (wait_at < ?3 OR id < ?4)
ORDER BY wait_at DESC, id DESC LIMIT 1 OFFSET ?5

-- name: find_due_bound_rising
-- Finds how far one search along the due times of waiting tasks goes in a partition, the earliest first: the task
-- after a number of tasks; no row: to the end of the range.
-- parameters: ?1 partition, ?2 due from (ms) and ?3 from this id there, ?4 due to (ms) and ?5 below this id there,
-- ?6 tasks to skip.
SELECT wait_at, id FROM task
WHERE partition = ?1 AND wait_at >= ?2 AND wait_at <= ?4 AND (wait_at > ?2 OR id >= ?3) AND (wait_at < ?4 OR id < ?5)
ORDER BY wait_at, id LIMIT 1 OFFSET ?6

-- name: list_in_flight
-- Lists tasks in flight after a position, the earliest end of a lease first, without histories.
-- parameters: ?1 after this end (ms), ?2 and this id, ?3 limit.
SELECT id, partition, namespace, task_id, task_version, queue, kind, priority, state, fence, attempt,
    max_attempts, execute_at, due_at, fired_at, created_at, updated_at, keep_until, place_due_at, timeout_ms,
    deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log,
    result_code, result_msg, result_is_json, result_body, last_error, payload_is_json, payload, ''
FROM whole_task WHERE lease_until >= ?1 AND (lease_until > ?1 OR id > ?2)
ORDER BY lease_until, id LIMIT ?3

-- name: read_latest_versions
-- Reads the highest version of each of a few callers' ids.
-- parameters: ?1 namespace, ?2 ids (JSON: [task_id, ...]).
SELECT whole_task.* FROM json_each(?2) AS wanted
CROSS JOIN whole_task ON whole_task.namespace = ?1 AND whole_task.task_id = wanted.value
WHERE NOT EXISTS (
    SELECT 1 FROM task AS newer
    WHERE newer.namespace = ?1 AND newer.task_id = wanted.value AND newer.task_version > whole_task.task_version
)

-- name: list_expired_leases
-- Lists tasks in flight whose leases have ended, the longest ended first, without histories.
-- parameters: ?1 now (ms), ?2 limit.
SELECT id, partition, namespace, task_id, task_version, queue, kind, priority, state, fence, attempt,
    max_attempts, execute_at, due_at, fired_at, created_at, updated_at, keep_until, place_due_at, timeout_ms,
    deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log,
    result_code, result_msg, result_is_json, result_body, last_error, payload_is_json, payload, ''
FROM whole_task WHERE lease_until <= ?1 ORDER BY lease_until LIMIT ?2

-- name: list
-- Searches tasks, the newest first, without histories, in a range of ids that bounds the work.
-- parameters: ?1 below this id, ?2 down to this id, ?3 limit; each other condition holds only if it is not NULL:
-- ?4 namespace, ?5 queue, ?6 state code, ?7 kind, ?8 due from (ms), ?9 due before (ms), ?10 label and ?11 its value,
-- ?12 changed from (ms), ?13 a text in its last error.
SELECT id, partition, namespace, task_id, task_version, queue, kind, priority, state, fence, attempt,
    max_attempts, execute_at, due_at, fired_at, created_at, updated_at, keep_until, place_due_at, timeout_ms,
    deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log,
    result_code, result_msg, result_is_json, result_body, last_error, payload_is_json, payload, ''
FROM whole_task
WHERE id < ?1 AND id >= ?2
    AND (?4 IS NULL OR namespace = ?4)
    AND (?5 IS NULL OR queue = ?5)
    AND (?6 IS NULL OR state = ?6)
    AND (?7 IS NULL OR kind = ?7)
    AND (?8 IS NULL OR due_at >= ?8)
    AND (?9 IS NULL OR due_at < ?9)
    AND (?10 IS NULL OR EXISTS (SELECT 1 FROM json_each(labels) AS it WHERE it.key = ?10 AND it.value = ?11))
    AND (?12 IS NULL OR updated_at >= ?12)
    AND (?13 IS NULL OR instr(last_error, ?13) > 0)
ORDER BY id DESC LIMIT ?3

-- name: list_by_due
-- Searches among waiting tasks along the due times of one partition, the latest first, without histories, in a range
-- that bounds the work.
-- parameters: ?1 partition, ?2 due from (ms) and ?3 from this id there, ?4 due to (ms) and ?5 below this id there,
-- ?6 limit; each other condition holds only if it is not NULL: ?7 namespace, ?8 queue, ?9 state code, ?10 kind,
-- ?11 label and ?12 its value, ?13 changed from (ms), ?14 a text in its last error.
SELECT task.id, partition, namespace, task_id, task_version, queue, kind, priority, state, fence, attempt,
    max_attempts, execute_at, due_at, fired_at, created_at, updated_at, keep_until, place_due_at, timeout_ms,
    deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log,
    result_code, result_msg, result_is_json, result_body, last_error, payload_is_json, coalesce(task.payload, body.payload), ''
FROM task LEFT JOIN body ON task.payload IS NULL AND body.id = task.id
WHERE partition = ?1 AND wait_at >= ?2 AND wait_at <= ?4
    AND (wait_at > ?2 OR task.id >= ?3)
    AND (wait_at < ?4 OR task.id < ?5)
    AND (?7 IS NULL OR namespace = ?7)
    AND (?8 IS NULL OR queue = ?8)
    AND (?9 IS NULL OR state = ?9)
    AND (?10 IS NULL OR kind = ?10)
    AND (?11 IS NULL OR EXISTS (SELECT 1 FROM json_each(labels) AS it WHERE it.key = ?11 AND it.value = ?12))
    AND (?13 IS NULL OR updated_at >= ?13)
    AND (?14 IS NULL OR instr(last_error, ?14) > 0)
ORDER BY wait_at DESC, task.id DESC LIMIT ?6

-- name: list_by_due_rising
-- Searches among waiting tasks along the due times of one partition, the earliest first, without histories, in a
-- range that bounds the work.
-- parameters: ?1 partition, ?2 due from (ms) and ?3 from this id there, ?4 due to (ms) and ?5 below this id there,
-- ?6 limit; each other condition holds only if it is not NULL: ?7 namespace, ?8 queue, ?9 state code, ?10 kind,
-- ?11 label and ?12 its value, ?13 changed from (ms), ?14 a text in its last error.
SELECT task.id, partition, namespace, task_id, task_version, queue, kind, priority, state, fence, attempt,
    max_attempts, execute_at, due_at, fired_at, created_at, updated_at, keep_until, place_due_at, timeout_ms,
    deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log,
    result_code, result_msg, result_is_json, result_body, last_error, payload_is_json, coalesce(task.payload, body.payload), ''
FROM task LEFT JOIN body ON task.payload IS NULL AND body.id = task.id
WHERE partition = ?1 AND wait_at >= ?2 AND wait_at <= ?4
    AND (wait_at > ?2 OR task.id >= ?3)
    AND (wait_at < ?4 OR task.id < ?5)
    AND (?7 IS NULL OR namespace = ?7)
    AND (?8 IS NULL OR queue = ?8)
    AND (?9 IS NULL OR state = ?9)
    AND (?10 IS NULL OR kind = ?10)
    AND (?11 IS NULL OR EXISTS (SELECT 1 FROM json_each(labels) AS it WHERE it.key = ?11 AND it.value = ?12))
    AND (?13 IS NULL OR updated_at >= ?13)
    AND (?14 IS NULL OR instr(last_error, ?14) > 0)
ORDER BY wait_at, task.id LIMIT ?6

-- name: list_by_label
-- Searches as `list`, among the tasks that have an entry in `task_label`.
-- parameters: ?1 below this id, ?2 down to this id, ?3 limit, ?4 namespace, ?14 the label (key=value); each other
-- condition holds only if it is not NULL: ?5 queue, ?6 state code, ?7 kind, ?8 due from (ms), ?9 due before (ms),
-- ?10 label and ?11 its value, ?12 changed from (ms), ?13 a text in its last error.
SELECT task.id, partition, task.namespace, task_id, task_version, queue, kind, priority, state, fence, attempt,
    max_attempts, execute_at, due_at, fired_at, created_at, updated_at, keep_until, place_due_at, timeout_ms,
    deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log,
    result_code, result_msg, result_is_json, result_body, last_error, payload_is_json, coalesce(task.payload, body.payload), ''
FROM task_label CROSS JOIN task ON task.id = task_label.id
LEFT JOIN body ON task.payload IS NULL AND body.id = task.id
WHERE task_label.namespace = ?4 AND task_label.label = ?14 AND task_label.id < ?1 AND task_label.id >= ?2
    AND task.namespace = ?4
    AND (?5 IS NULL OR queue = ?5)
    AND (?6 IS NULL OR state = ?6)
    AND (?7 IS NULL OR kind = ?7)
    AND (?8 IS NULL OR due_at >= ?8)
    AND (?9 IS NULL OR due_at < ?9)
    AND (?10 IS NULL OR EXISTS (SELECT 1 FROM json_each(labels) AS it WHERE it.key = ?10 AND it.value = ?11))
    AND (?12 IS NULL OR updated_at >= ?12)
    AND (?13 IS NULL OR instr(last_error, ?13) > 0)
ORDER BY task_label.id DESC LIMIT ?3

-- name: list_dead
-- Searches as `list`, among the dead tasks of a namespace.
-- parameters: ?1 below this id, ?2 down to this id, ?3 limit, ?4 namespace; each other condition holds only if it is
-- not NULL: ?5 queue, ?6 state code, ?7 kind, ?8 due from (ms), ?9 due before (ms), ?10 label and ?11 its value,
-- ?12 changed from (ms), ?13 a text in its last error.
SELECT task.id, partition, namespace, task_id, task_version, queue, kind, priority, state, fence, attempt,
    max_attempts, execute_at, due_at, fired_at, created_at, updated_at, keep_until, place_due_at, timeout_ms,
    deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log,
    result_code, result_msg, result_is_json, result_body, last_error, payload_is_json, coalesce(task.payload, body.payload), ''
FROM task LEFT JOIN body ON task.payload IS NULL AND body.id = task.id
WHERE task.state = 9 AND task.namespace = ?4 AND task.id < ?1 AND task.id >= ?2
    AND (?5 IS NULL OR queue = ?5)
    AND (?6 IS NULL OR state = ?6)
    AND (?7 IS NULL OR kind = ?7)
    AND (?8 IS NULL OR due_at >= ?8)
    AND (?9 IS NULL OR due_at < ?9)
    AND (?10 IS NULL OR EXISTS (SELECT 1 FROM json_each(labels) AS it WHERE it.key = ?10 AND it.value = ?11))
    AND (?12 IS NULL OR updated_at >= ?12)
    AND (?13 IS NULL OR instr(last_error, ?13) > 0)
ORDER BY task.id DESC LIMIT ?3

-- name: list_rising
-- Searches tasks, the oldest first, without histories, in a range of ids that bounds the work.
-- parameters: ?1 below this id, ?2 down to this id, ?3 limit; each other condition holds only if it is not NULL:
-- ?4 namespace, ?5 queue, ?6 state code, ?7 kind, ?8 due from (ms), ?9 due before (ms), ?10 label and ?11 its value,
-- ?12 changed from (ms), ?13 a text in its last error.
SELECT id, partition, namespace, task_id, task_version, queue, kind, priority, state, fence, attempt,
    max_attempts, execute_at, due_at, fired_at, created_at, updated_at, keep_until, place_due_at, timeout_ms,
    deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log,
    result_code, result_msg, result_is_json, result_body, last_error, payload_is_json, payload, ''
FROM whole_task
WHERE id < ?1 AND id >= ?2
    AND (?4 IS NULL OR namespace = ?4)
    AND (?5 IS NULL OR queue = ?5)
    AND (?6 IS NULL OR state = ?6)
    AND (?7 IS NULL OR kind = ?7)
    AND (?8 IS NULL OR due_at >= ?8)
    AND (?9 IS NULL OR due_at < ?9)
    AND (?10 IS NULL OR EXISTS (SELECT 1 FROM json_each(labels) AS it WHERE it.key = ?10 AND it.value = ?11))
    AND (?12 IS NULL OR updated_at >= ?12)
    AND (?13 IS NULL OR instr(last_error, ?13) > 0)
ORDER BY id LIMIT ?3

-- name: read_task
-- Reads a whole task.
-- parameters: ?1 id.
SELECT * FROM whole_task WHERE id = ?1

-- name: scan
-- Lists the waiting tasks of one partition in order of (due_at, id).
-- parameters: ?1 partition, ?2 due until (ms, inclusive), ?3 due after (ms, exclusive), ?4 limit.
SELECT id, place_due_at, due_at, fence, namespace, queue, priority, task_id, task_version, execute_at, deadline_ms,
    state, fired_at, attempt, demands, kind, payload_is_json, payload, max_attempts,
    timeout_ms, labels, traceparent
FROM task
WHERE partition = ?1 AND wait_at <= ?2 AND wait_at > ?3
ORDER BY wait_at, id LIMIT ?4

-- name: scan_instant
-- Lists the rest of the tasks that are due at one instant, as `scan`. A statement of its own, because SQLite does not
-- seek by (wait_at, id) > (?, ?) if the id is the row id, and an instant may have a hundred thousand tasks.
-- parameters: ?1 partition, ?2 the instant (ms), ?3 after this id, ?4 limit.
SELECT id, place_due_at, due_at, fence, namespace, queue, priority, task_id, task_version, execute_at, deadline_ms,
    state, fired_at, attempt, demands, kind, payload_is_json, payload, max_attempts,
    timeout_ms, labels, traceparent
FROM task
WHERE partition = ?1 AND wait_at = ?2 AND id > ?3
ORDER BY id LIMIT ?4

-- name: read_version
-- Reads one version of a caller's id.
-- parameters: ?1 namespace, ?2 task_id, ?3 limit (0 or 1), ?4 task_version.
SELECT * FROM whole_task WHERE namespace = ?1 AND task_id = ?2 AND task_version = ?4 LIMIT ?3

-- name: list_versions
-- Lists the versions of a caller's id, the highest first.
-- parameters: ?1 namespace, ?2 task_id, ?3 limit.
SELECT * FROM whole_task WHERE namespace = ?1 AND task_id = ?2 ORDER BY task_version DESC LIMIT ?3
