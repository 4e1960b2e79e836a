-- Leases of tasks in flight.

-- name: extend
-- Extends a lease that is still held. No move.
-- parameters: ?1 id, ?2 fence, ?3 now (ms), ?4 lease_until (ms, already bounded by timeout_ms), ?5 progress (JSON),
-- ?6 executor, ?7 fired_at (ms); each NULL: unchanged.
UPDATE task SET lease_until = ?4, progress = coalesce(?5, progress),
    lease_executor = coalesce(?6, lease_executor), fired_at = coalesce(?7, fired_at), updated_at = ?3
WHERE id = ?1 AND fence = ?2 AND lease_until > ?3 AND state IN (4, 5)

-- name: set_fired_at
-- Sets when the last attempt of a finished task fired, if only its planned time was known. No move.
-- parameters: ?1 id, ?2 fence, ?3 fired_at (ms).
UPDATE task SET fired_at = ?3
WHERE id = ?1 AND fence = ?2 AND state IN (8, 9, 10, 11)

-- name: read_for_grant
-- Reads what an executor is handed, just before the move. No row: the task has changed.
-- parameters: ?1 id, ?2 fence.
SELECT namespace, queue, state, task_id, task_version, fence, attempt, kind, priority, payload_is_json,
    coalesce(task.payload, body.payload), due_at, timeout_ms, traceparent, partition, place_due_at, max_attempts,
    labels, execute_at
FROM task LEFT JOIN body ON task.payload IS NULL AND body.id = task.id
WHERE task.id = ?1 AND fence = ?2 AND (state = 1 OR state = 2 OR state = 3 OR state = 6 OR state = 7)

-- name: read_held
-- Reads a lease that is still held. No row: it is lost.
-- parameters: ?1 id, ?2 fence, ?3 now (ms).
SELECT namespace, queue, state, lease_since, timeout_ms, cancel_requested, lease_until FROM task
WHERE id = ?1 AND fence = ?2 AND lease_until > ?3 AND state IN (4, 5)

-- name: append_log
-- Appends a handler's log lines. No move. Beyond 16,384 bytes the oldest lines are dropped. The caller has found the
-- lease held in the same transaction.
-- parameters: ?1 id, ?2 fence, ?3 new lines (whole lines of JSON, at most 16,384 bytes).
UPDATE task SET log = CASE
    WHEN octet_length(coalesce(log, '') || ?3) <= 16384 THEN coalesce(log, '') || ?3
    ELSE CAST(substr(
        substr(CAST(coalesce(log, '') || ?3 AS BLOB), -16385),
        instr(substr(CAST(coalesce(log, '') || ?3 AS BLOB), -16385), X'0A') + 1
    ) AS TEXT)
END
WHERE id = ?1 AND fence = ?2 AND state IN (4, 5)

-- name: request_stop
-- Marks a task in flight, so that its executor learns that it should stop. No move.
-- parameters: ?1 id, ?2 now (ms).
UPDATE task SET cancel_requested = 1, updated_at = ?2 WHERE id = ?1 AND state IN (4, 5)
