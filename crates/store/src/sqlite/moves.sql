-- The moves of tasks, one statement for each event of the domain's table.

-- name: read_place
-- Reads a task for the account and the history of the move that follows. The last columns are the bytes of the
-- payload (NULL if it is in `body`), since when an attempt is in flight, and the trace.
-- parameters: ?1 id.
SELECT namespace, queue, state, due_at, execute_at, payload IS NULL,
    CASE WHEN payload_is_json >= 2 THEN CAST(CAST(payload AS TEXT) AS INTEGER) ELSE length(payload) END,
    lease_since, traceparent
FROM task WHERE id = ?1

-- name: abort
-- Ends a task by its executor, which had been asked to stop.
-- parameters: ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 keep_until (ms), ?7 error or NULL, ?8 fired_at (ms) or NULL: as it was.
-- moves: abort from (4, 5) to 10
UPDATE task SET
    state = 10,
    keep_until = ?6,
    fired_at = coalesce(?8, fired_at),
    lease_executor = NULL, lease_since = NULL, lease_until = NULL, cancel_requested = 0,
    last_error = coalesce(?7, last_error),
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND state IN (4, 5) AND (?2 IS NULL OR fence = ?2)

-- name: amend
-- Changes a dead task on a caller's request; it stays dead. A new fence, so that one of two changes is refused.
-- parameters: ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 max_attempts or NULL (as it was), ?7 priority or NULL (as it was), ?8 whether the payload is JSON, or NULL
-- (payload as it was), ?9 payload, or NULL when it goes to `body`, ?10 timeout_ms or NULL (as it was), ?11 whether
-- there is a new retry, ?12 retry (JSON) or NULL (default).
-- moves: amend from (9) to 9
UPDATE task SET
    state = 9,
    fence = fence + 1,
    max_attempts = coalesce(?6, max_attempts),
    priority = coalesce(?7, priority),
    payload_is_json = coalesce(?8, payload_is_json),
    payload = CASE WHEN ?8 IS NULL THEN payload ELSE ?9 END,
    timeout_ms = coalesce(?10, timeout_ms),
    retry = CASE WHEN ?11 THEN ?12 ELSE retry END,
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND state IN (9) AND (?2 IS NULL OR fence = ?2)

-- name: bury
-- Buries a task whose last attempt failed, or which the executor refused for good.
-- parameters: ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 keep_until (ms), ?7 to ?10 result code, message, whether its body is JSON, body (all NULL: none), ?11 error or
-- NULL, ?12 fired_at (ms) or NULL: as it was.
-- moves: bury from (4, 5) to 9
UPDATE task SET
    state = 9,
    keep_until = ?6,
    fired_at = coalesce(?12, fired_at),
    lease_executor = NULL, lease_since = NULL, lease_until = NULL, cancel_requested = 0,
    result_code = ?7, result_msg = ?8, result_is_json = ?9, result_body = ?10,
    last_error = coalesce(?11, last_error),
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND state IN (4, 5) AND (?2 IS NULL OR fence = ?2)

-- name: cancel
-- Cancels a task before it fired.
-- parameters: ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 keep_until (ms).
-- moves: cancel from (1, 2, 7, 12) to 10
UPDATE task SET
    state = 10,
    wait_at = NULL,
    keep_until = ?6,
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND (state = 1 OR state = 2 OR state IN (1, 2, 7, 12)) AND (?2 IS NULL OR fence = ?2)

-- name: claim
-- Claims a task for the partition's owner, a little ahead of its time. Touches no index.
-- parameters: ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>".
-- moves: claim from (1, 7) to 2
UPDATE task SET
    state = 2,
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND state IN (1, 7) AND (?2 IS NULL OR fence = ?2)

-- name: dead_letter
-- Buries a task on a caller's request, before an executor had it.
-- parameters: ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 keep_until (ms), ?7 error or NULL.
-- moves: dead_letter from (1, 2, 3, 6, 7, 12) to 9
UPDATE task SET
    state = 9,
    wait_at = NULL,
    keep_until = ?6,
    last_error = coalesce(?7, last_error),
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND (state = 1 OR state = 2 OR state = 3 OR state IN (1, 2, 3, 6, 7, 12)) AND (?2 IS NULL OR fence = ?2)

-- name: dispatch
-- Hands a task to an executor: spends an attempt and makes a new fence. `read_for_grant` of lease.sql has read the
-- row, or the caller knows it.
-- parameters: ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 fired_at (ms), ?7 executor, ?8 lease_until (ms, already bounded by timeout_ms), ?9 beginning of the attempt
-- (ms), ?10 the state that it is in.
-- moves: dispatch from (1, 2, 3, 6, 7) to 4
UPDATE task SET
    state = 4,
    fence = fence + 1,
    attempt = attempt + 1,
    wait_at = NULL,
    fired_at = ?6,
    lease_executor = ?7,
    lease_since = ?9,
    lease_until = ?8,
    cancel_requested = 0,
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || (attempt + 1) || ?5)
WHERE id = ?1 AND (state = 1 OR state = 2 OR state = 3 OR state IN (1, 2, 3, 6, 7)) AND state = ?10 AND (?2 IS NULL OR fence = ?2)

-- name: expire
-- Buries a task that was not started by its deadline.
-- parameters: ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 keep_until (ms), ?7 error or NULL.
-- moves: expire from (1, 2, 3, 6, 7) to 9
UPDATE task SET
    state = 9,
    wait_at = NULL,
    keep_until = ?6,
    last_error = coalesce(?7, last_error),
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND (state = 1 OR state = 2 OR state = 3 OR state IN (1, 2, 3, 6, 7)) AND (?2 IS NULL OR fence = ?2)

-- name: fail_dispatch
-- Records that a task could not be sent: the compensator will try again.
-- parameters: ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 error or NULL.
-- moves: fail_dispatch from (2, 3) to 6
UPDATE task SET
    state = 6,
    last_error = coalesce(?6, last_error),
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND state IN (2, 3) AND (?2 IS NULL OR fence = ?2)

-- name: fire
-- Fires a task whose instant has come and which nobody takes at once.
-- parameters: ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 fired_at (ms).
-- moves: fire from (2) to 3
UPDATE task SET
    state = 3,
    fired_at = ?6,
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND state IN (2) AND (?2 IS NULL OR fence = ?2)

-- name: hand_back
-- Gives back a task that has not fired, when its owner stops.
-- parameters: ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>".
-- moves: hand_back from (2) to 1
UPDATE task SET
    state = 1,
    fired_at = NULL,
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND state IN (2) AND (?2 IS NULL OR fence = ?2)

-- name: reclaim
-- Takes over a task that the last owner had claimed and not handed over. Touches no index.
-- parameters: ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>".
-- moves: reclaim from (2, 3, 6) to 2
UPDATE task SET
    state = 2,
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND (state = 2 OR state = 3 OR state IN (2, 3, 6)) AND (?2 IS NULL OR fence = ?2)

-- name: redrive
-- Gives a dead task new attempts. The report of its last attempt stays readable.
-- parameters: ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 execute_at (ms).
-- moves: redrive from (9) to 1
UPDATE task SET
    state = 1,
    fence = fence + 1,
    attempt = 0,
    execute_at = ?6,
    due_at = max(?6, ?3),
    wait_at = max(?6, ?3),
    fired_at = NULL,
    keep_until = NULL,
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || 0 || ?5)
WHERE id = ?1 AND state IN (9) AND (?2 IS NULL OR fence = ?2)

-- name: release
-- Gives back the attempt of a task whose executor was gone before the hand-over reached it. The fence stays, so that
-- the entry made from this row is valid.
-- parameters: ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>".
-- moves: release from (4) to 3
UPDATE task SET
    state = 3,
    attempt = max(attempt - 1, 0),
    wait_at = due_at,
    lease_executor = NULL, lease_since = NULL, lease_until = NULL, cancel_requested = 0,
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || max(attempt - 1, 0) || ?5)
WHERE id = ?1 AND state IN (4) AND (?2 IS NULL OR fence = ?2)

-- name: replace
-- Replaces a task by one with the same id and version. Its reference stays valid.
-- parameters: ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 queue, ?7 kind, ?8 priority, ?9 max_attempts, ?10 execute_at (ms), ?11 due_at (ms), ?12 timeout_ms or NULL,
-- ?13 deadline_ms or NULL, ?14 retry (JSON) or NULL (default), ?15 labels (JSON) or NULL, ?16 traceparent or NULL,
-- ?17 whether the payload is JSON, ?18 payload, or NULL when it goes to `body`, ?19 demands (JSON) or NULL.
-- moves: replace from (1, 2, 3, 6, 7, 9, 10, 11, 12) to 1
UPDATE task SET
    state = 1,
    fence = fence + 1,
    attempt = 0,
    queue = ?6,
    kind = ?7,
    priority = ?8,
    max_attempts = ?9,
    execute_at = ?10,
    due_at = ?11,
    wait_at = ?11,
    fired_at = NULL,
    keep_until = NULL,
    timeout_ms = ?12,
    deadline_ms = ?13,
    lease_executor = NULL, lease_since = NULL, lease_until = NULL, cancel_requested = 0,
    retry = ?14,
    labels = ?15,
    traceparent = ?16,
    demands = ?19,
    progress = NULL,
    log = NULL,
    result_code = NULL, result_msg = NULL, result_is_json = NULL, result_body = NULL,
    last_error = NULL,
    payload_is_json = ?17,
    payload = ?18,
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || 0 || ?5)
WHERE id = ?1 AND state IN (1, 2, 3, 6, 7, 9, 10, 11, 12) AND (?2 IS NULL OR fence = ?2)

-- name: reschedule
-- Changes the time, payload, priority or queue of a task before it fired. A new fence, so that the old hot entry is
-- refused.
-- parameters: ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 execute_at (ms) or NULL (as it was), ?7 priority or NULL (as it was), ?8 whether the payload is JSON, or NULL
-- (payload as it was), ?9 payload, or NULL when it goes to `body`, ?10 queue or NULL (as it was); the trigger
-- `task_label_changed` enters its labels as that queue has declared them.
-- moves: reschedule from (1, 2, 7) to 1
UPDATE task SET
    state = 1,
    fence = fence + 1,
    execute_at = coalesce(?6, execute_at),
    due_at = coalesce(max(?6, ?3), due_at),
    wait_at = coalesce(max(?6, ?3), due_at),
    fired_at = NULL,
    priority = coalesce(?7, priority),
    queue = coalesce(?10, queue),
    payload_is_json = coalesce(?8, payload_is_json),
    payload = CASE WHEN ?8 IS NULL THEN payload ELSE ?9 END,
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND (state = 1 OR state = 2 OR state IN (1, 2, 7)) AND (?2 IS NULL OR fence = ?2)

-- name: retire
-- Stops a success whose retention is over.
-- parameters: ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 keep_until (ms).
-- moves: retire from (8) to 11
UPDATE task SET
    state = 11,
    keep_until = ?6,
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND state IN (8) AND (?2 IS NULL OR fence = ?2)

-- name: retry
-- Plans another attempt, after one failed or its lease ended. A new fence, so that the old lease is refused. The
-- deadline is an instant: it stays where it was when execute_at, from which it counts, moves.
-- parameters: ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 due_at (ms), ?7 to ?10 result code, message, whether its body is JSON, body (all NULL: none), ?11 error or NULL.
-- moves: retry from (4, 5) to 7
UPDATE task SET
    state = 7,
    fence = fence + 1,
    deadline_ms = deadline_ms - (?6 - execute_at),
    execute_at = ?6,
    due_at = ?6,
    wait_at = ?6,
    fired_at = NULL,
    lease_executor = NULL, lease_since = NULL, lease_until = NULL, cancel_requested = 0,
    result_code = ?7, result_msg = ?8, result_is_json = ?9, result_body = ?10,
    last_error = coalesce(?11, last_error),
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND state IN (4, 5) AND (?2 IS NULL OR fence = ?2)

-- name: snooze
-- Postpones a task on its executor's request: the attempt is given back. A new fence, so that the old lease is
-- refused. The deadline is an instant: it stays where it was when execute_at, from which it counts, moves.
-- parameters: ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 due_at (ms).
-- moves: snooze from (4, 5) to 1
UPDATE task SET
    state = 1,
    fence = fence + 1,
    attempt = max(attempt - 1, 0),
    deadline_ms = deadline_ms - (?6 - execute_at),
    execute_at = ?6,
    due_at = ?6,
    wait_at = ?6,
    fired_at = NULL,
    lease_executor = NULL, lease_since = NULL, lease_until = NULL, cancel_requested = 0,
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || max(attempt - 1, 0) || ?5)
WHERE id = ?1 AND state IN (4, 5) AND (?2 IS NULL OR fence = ?2)

-- name: start
-- Records the executor's first sign of work, which may also extend its lease.
-- parameters: ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>".
-- moves: start from (4) to 5
UPDATE task SET
    state = 5,
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND state IN (4) AND (?2 IS NULL OR fence = ?2)

-- name: succeed
-- Records success. A lease that has ended, but was not collected yet, still counts.
-- parameters: ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 keep_until (ms), ?7 to ?10 result code, message, whether its body is JSON, body (all NULL: none), ?11 fired_at
-- (ms) or NULL: as it was, ?12 the state that it is in or NULL (any of these).
-- moves: succeed from (4, 5) to 8
UPDATE task SET
    state = 8,
    keep_until = ?6,
    fired_at = coalesce(?11, fired_at),
    lease_executor = NULL, lease_since = NULL, lease_until = NULL, cancel_requested = 0,
    result_code = ?7, result_msg = ?8, result_is_json = ?9, result_body = ?10,
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND state IN (4, 5) AND (?12 IS NULL OR state = ?12) AND (?2 IS NULL OR fence = ?2)

-- name: unblock
-- Schedules a task whose parents are all done, not before now.
-- parameters: ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>".
-- moves: unblock from (12) to 1
UPDATE task SET
    state = 1,
    due_at = max(execute_at, ?3),
    wait_at = max(execute_at, ?3),
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND state IN (12) AND (?2 IS NULL OR fence = ?2)

-- name: withdraw
-- Cancels a task on request after it had fired, before an executor had it.
-- parameters: ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 keep_until (ms).
-- moves: withdraw from (2, 3, 6) to 10
UPDATE task SET
    state = 10,
    wait_at = NULL,
    keep_until = ?6,
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND (state = 3 OR state IN (2, 3, 6)) AND (?2 IS NULL OR fence = ?2)
