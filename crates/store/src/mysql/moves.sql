-- The moves of tasks, one statement for each event of the domain's table, and where moved tasks are.

-- name: read_labels
-- Reads the labels and the kind of one task, whose row is locked.
-- parameters: 1 partition, 2 due_at (ms), 3 id.
SELECT labels, kind FROM task FORCE INDEX (PRIMARY) WHERE partition_no = ? AND due_at = ? AND id = ?

-- name: lock_places
-- Reads tasks for the decisions, the account and the histories of the moves that follow, and locks them until the end
-- of the transaction. The last columns are the bytes of the payload (NULL if it is in `body`), since when an attempt
-- is in flight, and the trace.
-- parameters: 1 the places (JSON: [number, partition, due_at (ms), id], in the order of the key).
SELECT wanted.nth, task.due_at, namespace, queue, state, fence, attempt, execute_at, deadline_ms, priority,
    payload IS NULL, CASE
        WHEN payload_is_json >= 2 THEN CAST(SUBSTRING_INDEX(payload, ' ', 1) AS SIGNED)
        ELSE LENGTH(payload) END,
    lease_since, traceparent
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at AND task.id = wanted.id
FOR UPDATE /*!80001 OF task */

-- name: abort
-- Ends a task by its executor, which had been asked to stop.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, fired_at (ms; null: as it was), history line,
-- keep_until (ms), error or null]), 2 now (ms).
-- moves: abort from (4, 5) to 10
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    fired_at BIGINT PATH '$[4]',
    line LONGTEXT CHARACTER SET utf8mb4 PATH '$[5]', keep_until BIGINT PATH '$[6]',
    error LONGTEXT CHARACTER SET utf8mb4 PATH '$[7]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (4, 5)
SET
    task.history = CONCAT(IF(LENGTH(task.history) > 262144, CONCAT(
        SUBSTRING_INDEX(task.history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) + 1)), task.history), wanted.line),
    task.state = 10,
    task.fired_at = COALESCE(wanted.fired_at, task.fired_at),
    task.keep_until = wanted.keep_until,
    task.lease_executor = NULL, task.lease_since = NULL, task.lease_until = NULL, task.cancel_requested = 0,
    task.last_error = COALESCE(wanted.error, task.last_error),
    task.updated_at = ?

-- name: amend
-- Changes a dead task on a caller's request; it stays dead. A new fence, so that one of two changes is refused.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, history line, max_attempts or null (as it was),
-- priority or null (as it was), whether the payload is JSON, or null (payload as it was), payload (base64), or null
-- when it goes to `body`, timeout_ms or null (as it was), whether there is a new retry, retry (JSON) or null
-- (default)]), 2 now (ms).
-- moves: amend from (9) to 9
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    line LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]', max_attempts BIGINT PATH '$[5]', priority INT PATH '$[6]',
    payload_is_json INT PATH '$[7]', payload LONGTEXT CHARACTER SET utf8mb4 PATH '$[8]', timeout_ms BIGINT PATH '$[9]',
    has_retry INT PATH '$[10]', retry LONGTEXT CHARACTER SET utf8mb4 PATH '$[11]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (9)
SET
    task.history = CONCAT(IF(LENGTH(task.history) > 262144, CONCAT(
        SUBSTRING_INDEX(task.history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) + 1)), task.history), wanted.line),
    task.state = 9,
    task.fence = task.fence + 1,
    task.max_attempts = COALESCE(wanted.max_attempts, task.max_attempts),
    task.priority = COALESCE(wanted.priority, task.priority),
    task.payload = IF(wanted.payload_is_json IS NULL, task.payload, FROM_BASE64(wanted.payload)),
    task.payload_is_json = COALESCE(wanted.payload_is_json, task.payload_is_json),
    task.timeout_ms = COALESCE(wanted.timeout_ms, task.timeout_ms),
    task.retry = IF(wanted.has_retry = 1, wanted.retry, task.retry),
    task.updated_at = ?

-- name: bury
-- Buries a task whose last attempt failed, or which the executor refused for good.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, fired_at (ms; null: as it was), history line,
-- keep_until (ms), result code, message, whether its body is JSON, body (base64), all four null: no result, error or
-- null]), 2 now (ms).
-- moves: bury from (4, 5) to 9
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    fired_at BIGINT PATH '$[4]',
    line LONGTEXT CHARACTER SET utf8mb4 PATH '$[5]', keep_until BIGINT PATH '$[6]', result_code BIGINT PATH '$[7]',
    result_msg LONGTEXT CHARACTER SET utf8mb4 PATH '$[8]', result_is_json INT PATH '$[9]',
    result_body LONGTEXT CHARACTER SET utf8mb4 PATH '$[10]', error LONGTEXT CHARACTER SET utf8mb4 PATH '$[11]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (4, 5)
SET
    task.history = CONCAT(IF(LENGTH(task.history) > 262144, CONCAT(
        SUBSTRING_INDEX(task.history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) + 1)), task.history), wanted.line),
    task.state = 9,
    task.fired_at = COALESCE(wanted.fired_at, task.fired_at),
    task.keep_until = wanted.keep_until,
    task.lease_executor = NULL, task.lease_since = NULL, task.lease_until = NULL, task.cancel_requested = 0,
    task.result_code = wanted.result_code, task.result_msg = wanted.result_msg,
    task.result_is_json = wanted.result_is_json, task.result_body = FROM_BASE64(wanted.result_body),
    task.last_error = COALESCE(wanted.error, task.last_error),
    task.updated_at = ?

-- name: cancel
-- Cancels a task before it fired.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, history line, keep_until (ms)]), 2 now (ms).
-- moves: cancel from (1, 2, 7, 12) to 10
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    line LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]', keep_until BIGINT PATH '$[5]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (1, 2, 7, 12)
SET
    task.history = CONCAT(IF(LENGTH(task.history) > 262144, CONCAT(
        SUBSTRING_INDEX(task.history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) + 1)), task.history), wanted.line),
    task.state = 10,
    task.keep_until = wanted.keep_until,
    task.updated_at = ?

-- name: claim
-- Claims a task for the partition's owner, a little ahead of its time.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, history line]), 2 now (ms).
-- moves: claim from (1, 7) to 2
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    line LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (1, 7)
SET
    task.history = CONCAT(IF(LENGTH(task.history) > 262144, CONCAT(
        SUBSTRING_INDEX(task.history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) + 1)), task.history), wanted.line),
    task.state = 2,
    task.updated_at = ?

-- name: dead_letter
-- Buries a task on a caller's request, before an executor had it.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, history line, keep_until (ms), error or null]),
-- 2 now (ms).
-- moves: dead_letter from (1, 2, 3, 6, 7, 12) to 9
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    line LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]', keep_until BIGINT PATH '$[5]',
    error LONGTEXT CHARACTER SET utf8mb4 PATH '$[6]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (1, 2, 3, 6, 7, 12)
SET
    task.history = CONCAT(IF(LENGTH(task.history) > 262144, CONCAT(
        SUBSTRING_INDEX(task.history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) + 1)), task.history), wanted.line),
    task.state = 9,
    task.keep_until = wanted.keep_until,
    task.last_error = COALESCE(wanted.error, task.last_error),
    task.updated_at = ?

-- name: dispatch
-- Hands tasks to executors: spends an attempt and makes a new fence. `lock_for_grant` or `read_for_grant` of
-- lease.sql has read the rows.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, fired_at (ms), now (ms), history line from behind
-- its time, executor, lease_until (ms, already bounded by timeout_ms), expected state code]), 2 now (ms).
-- moves: dispatch from (1, 2, 3, 6, 7) to 4
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    fired_at BIGINT PATH '$[4]', now BIGINT PATH '$[5]', line LONGTEXT CHARACTER SET utf8mb4 PATH '$[6]',
    lease_executor LONGTEXT CHARACTER SET utf8mb4 PATH '$[7]', lease_until BIGINT PATH '$[8]', code INT PATH '$[9]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (1, 2, 3, 6, 7) AND task.state = wanted.code
SET
    task.history = CONCAT(IF(LENGTH(task.history) > 262144, CONCAT(
        SUBSTRING_INDEX(task.history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) + 1)), task.history), '[', GREATEST(wanted.fired_at, wanted.now),
        wanted.line),
    task.state = 4,
    task.fence = task.fence + 1,
    task.attempt = task.attempt + 1,
    task.fired_at = wanted.fired_at,
    task.lease_executor = wanted.lease_executor,
    task.lease_since = GREATEST(wanted.fired_at, wanted.now),
    task.lease_until = wanted.lease_until,
    task.cancel_requested = 0,
    task.updated_at = ?,
    task.room = LEFT(task.room, 56)

-- name: expire
-- Buries a task that was not started by its deadline.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, history line, keep_until (ms), error or null]),
-- 2 now (ms).
-- moves: expire from (1, 2, 3, 6, 7) to 9
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    line LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]', keep_until BIGINT PATH '$[5]',
    error LONGTEXT CHARACTER SET utf8mb4 PATH '$[6]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (1, 2, 3, 6, 7)
SET
    task.history = CONCAT(IF(LENGTH(task.history) > 262144, CONCAT(
        SUBSTRING_INDEX(task.history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) + 1)), task.history), wanted.line),
    task.state = 9,
    task.keep_until = wanted.keep_until,
    task.last_error = COALESCE(wanted.error, task.last_error),
    task.updated_at = ?

-- name: fail_dispatch
-- Records that a task could not be sent: the compensator will try again.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, history line, error or null]), 2 now (ms).
-- moves: fail_dispatch from (2, 3) to 6
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    line LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]', error LONGTEXT CHARACTER SET utf8mb4 PATH '$[5]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (2, 3)
SET
    task.history = CONCAT(IF(LENGTH(task.history) > 262144, CONCAT(
        SUBSTRING_INDEX(task.history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) + 1)), task.history), wanted.line),
    task.state = 6,
    task.last_error = COALESCE(wanted.error, task.last_error),
    task.updated_at = ?

-- name: fire
-- Fires a task whose instant has come and which nobody takes at once.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, history line, fired_at (ms)]), 2 now (ms).
-- moves: fire from (2) to 3
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    line LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]', fired_at BIGINT PATH '$[5]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (2)
SET
    task.history = CONCAT(IF(LENGTH(task.history) > 262144, CONCAT(
        SUBSTRING_INDEX(task.history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) + 1)), task.history), wanted.line),
    task.state = 3,
    task.fired_at = wanted.fired_at,
    task.updated_at = ?

-- name: hand_back
-- Gives back a task that has not fired, when its owner stops.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, history line]), 2 now (ms).
-- moves: hand_back from (2) to 1
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    line LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (2)
SET
    task.history = CONCAT(IF(LENGTH(task.history) > 262144, CONCAT(
        SUBSTRING_INDEX(task.history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) + 1)), task.history), wanted.line),
    task.state = 1,
    task.fired_at = NULL,
    task.updated_at = ?

-- name: reclaim
-- Takes over a task that the last owner had claimed and not handed over.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, history line]), 2 now (ms).
-- moves: reclaim from (2, 3, 6) to 2
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    line LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (2, 3, 6)
SET
    task.history = CONCAT(IF(LENGTH(task.history) > 262144, CONCAT(
        SUBSTRING_INDEX(task.history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) + 1)), task.history), wanted.line),
    task.state = 2,
    task.updated_at = ?

-- name: redrive
-- Gives a dead task new attempts. The report of its last attempt stays readable.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, history line, the new due_at (ms), execute_at
-- (ms)]), 2 now (ms).
-- moves: redrive from (9) to 1
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    line LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]', to_due_at BIGINT PATH '$[5]', execute_at BIGINT PATH '$[6]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (9)
SET
    task.history = CONCAT(IF(LENGTH(task.history) > 262144, CONCAT(
        SUBSTRING_INDEX(task.history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) + 1)), task.history), wanted.line),
    task.state = 1,
    task.fence = task.fence + 1,
    task.attempt = 0,
    task.execute_at = wanted.execute_at,
    task.due_at = wanted.to_due_at,
    task.fired_at = NULL,
    task.keep_until = NULL,
    task.updated_at = ?

-- name: release
-- Gives back the attempt of a task whose executor was gone before the hand-over reached it. The fence stays, so that
-- the entry made from this row is valid.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, history line]), 2 now (ms).
-- moves: release from (4) to 3
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    line LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (4)
SET
    task.history = CONCAT(IF(LENGTH(task.history) > 262144, CONCAT(
        SUBSTRING_INDEX(task.history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) + 1)), task.history), wanted.line),
    task.state = 3,
    task.attempt = GREATEST(task.attempt - 1, 0),
    task.lease_executor = NULL, task.lease_since = NULL, task.lease_until = NULL, task.cancel_requested = 0,
    task.updated_at = ?

-- name: reschedule
-- Changes the time, payload, priority or queue of a task before it fired. A new fence, so that the old hot entry is
-- refused.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, history line, the new due_at (ms), execute_at
-- (ms), priority, whether the payload is JSON, or null (payload as it was), payload (base64), or null when it goes to
-- `body`, queue, or null (as it was)]), 2 now (ms).
-- moves: reschedule from (1, 2, 7) to 1
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    line LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]', to_due_at BIGINT PATH '$[5]', execute_at BIGINT PATH '$[6]',
    priority INT PATH '$[7]', payload_is_json INT PATH '$[8]', payload LONGTEXT CHARACTER SET utf8mb4 PATH '$[9]',
    queue VARCHAR(128) CHARACTER SET ascii PATH '$[10]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (1, 2, 7)
SET
    task.history = CONCAT(IF(LENGTH(task.history) > 262144, CONCAT(
        SUBSTRING_INDEX(task.history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) + 1)), task.history), wanted.line),
    task.state = 1,
    task.fence = task.fence + 1,
    task.execute_at = wanted.execute_at,
    task.due_at = wanted.to_due_at,
    task.fired_at = NULL,
    task.priority = wanted.priority,
    task.queue = COALESCE(wanted.queue, task.queue),
    task.payload = IF(wanted.payload_is_json IS NULL, task.payload, FROM_BASE64(wanted.payload)),
    task.payload_is_json = COALESCE(wanted.payload_is_json, task.payload_is_json),
    task.updated_at = ?

-- name: retire
-- Stops a success whose retention is over.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, history line, keep_until (ms)]), 2 now (ms).
-- moves: retire from (8) to 11
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    line LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]', keep_until BIGINT PATH '$[5]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (8)
SET
    task.history = CONCAT(IF(LENGTH(task.history) > 262144, CONCAT(
        SUBSTRING_INDEX(task.history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) + 1)), task.history), wanted.line),
    task.state = 11,
    task.keep_until = wanted.keep_until,
    task.updated_at = ?

-- name: retry
-- Plans another attempt, after one failed or its lease ended. A new fence, so that the old lease is refused. The
-- deadline is an instant: it stays where it was when execute_at, from which it counts, moves.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, history line, the new due_at (ms), deadline_ms or
-- null, result code, message, whether its body is JSON, body (base64), all four null: no result, error or null]),
-- 2 now (ms).
-- moves: retry from (4, 5) to 7
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    line LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]', to_due_at BIGINT PATH '$[5]', deadline_ms BIGINT PATH '$[6]',
    result_code BIGINT PATH '$[7]', result_msg LONGTEXT CHARACTER SET utf8mb4 PATH '$[8]',
    result_is_json INT PATH '$[9]', result_body LONGTEXT CHARACTER SET utf8mb4 PATH '$[10]',
    error LONGTEXT CHARACTER SET utf8mb4 PATH '$[11]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (4, 5)
SET
    task.history = CONCAT(IF(LENGTH(task.history) > 262144, CONCAT(
        SUBSTRING_INDEX(task.history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) + 1)), task.history), wanted.line),
    task.state = 7,
    task.fence = task.fence + 1,
    task.deadline_ms = wanted.deadline_ms,
    task.execute_at = wanted.to_due_at,
    task.due_at = wanted.to_due_at,
    task.fired_at = NULL,
    task.lease_executor = NULL, task.lease_since = NULL, task.lease_until = NULL, task.cancel_requested = 0,
    task.result_code = wanted.result_code, task.result_msg = wanted.result_msg,
    task.result_is_json = wanted.result_is_json, task.result_body = FROM_BASE64(wanted.result_body),
    task.last_error = COALESCE(wanted.error, task.last_error),
    task.updated_at = ?

-- name: snooze
-- Postpones a task on its executor's request: the attempt is given back. A new fence, so that the old lease is
-- refused. The deadline is an instant: it stays where it was when execute_at, from which it counts, moves.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, history line, the new due_at (ms), deadline_ms or
-- null]), 2 now (ms).
-- moves: snooze from (4, 5) to 1
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    line LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]', to_due_at BIGINT PATH '$[5]', deadline_ms BIGINT PATH '$[6]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (4, 5)
SET
    task.history = CONCAT(IF(LENGTH(task.history) > 262144, CONCAT(
        SUBSTRING_INDEX(task.history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) + 1)), task.history), wanted.line),
    task.state = 1,
    task.fence = task.fence + 1,
    task.attempt = GREATEST(task.attempt - 1, 0),
    task.deadline_ms = wanted.deadline_ms,
    task.execute_at = wanted.to_due_at,
    task.due_at = wanted.to_due_at,
    task.fired_at = NULL,
    task.lease_executor = NULL, task.lease_since = NULL, task.lease_until = NULL, task.cancel_requested = 0,
    task.updated_at = ?

-- name: start
-- Records the executor's first sign of work, which may also extend its lease.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, history line, lease_until (ms, already bounded by
-- timeout_ms) or null (as it was), progress (JSON text) or null (as it was)]), 2 now (ms).
-- moves: start from (4) to 5
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    line LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]', beat_until BIGINT PATH '$[5]',
    progress LONGTEXT CHARACTER SET utf8mb4 PATH '$[6]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (4)
SET
    task.history = CONCAT(IF(LENGTH(task.history) > 262144, CONCAT(
        SUBSTRING_INDEX(task.history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) + 1)), task.history), wanted.line),
    task.state = 5,
    task.lease_until = COALESCE(wanted.beat_until, task.lease_until),
    task.progress = COALESCE(wanted.progress, task.progress),
    task.updated_at = ?

-- name: succeed
-- Records success. A lease that has ended, but was not collected yet, still counts.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, fired_at (ms; null: as it was), history line,
-- keep_until (ms), result code, message, whether its body is JSON, body (base64), all four null: no result, the code
-- of the state that it is in]), 2 now (ms).
-- moves: succeed from (4, 5) to 8
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    fired_at BIGINT PATH '$[4]',
    line LONGTEXT CHARACTER SET utf8mb4 PATH '$[5]', keep_until BIGINT PATH '$[6]', result_code BIGINT PATH '$[7]',
    result_msg LONGTEXT CHARACTER SET utf8mb4 PATH '$[8]', result_is_json INT PATH '$[9]',
    result_body LONGTEXT CHARACTER SET utf8mb4 PATH '$[10]', code INT PATH '$[11]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (4, 5) AND task.state = wanted.code
SET
    task.history = CONCAT(IF(LENGTH(task.history) > 262144, CONCAT(
        SUBSTRING_INDEX(task.history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) + 1)), task.history), wanted.line),
    task.state = 8,
    task.fired_at = COALESCE(wanted.fired_at, task.fired_at),
    task.keep_until = wanted.keep_until,
    task.lease_executor = NULL, task.lease_since = NULL, task.lease_until = NULL, task.cancel_requested = 0,
    task.result_code = wanted.result_code, task.result_msg = wanted.result_msg,
    task.result_is_json = wanted.result_is_json, task.result_body = FROM_BASE64(wanted.result_body),
    task.updated_at = ?,
    task.room = ''

-- name: unblock
-- Schedules a task whose parents are all done, not before now.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, history line, the new due_at (ms)]), 2 now (ms).
-- moves: unblock from (12) to 1
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    line LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]', to_due_at BIGINT PATH '$[5]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (12)
SET
    task.history = CONCAT(IF(LENGTH(task.history) > 262144, CONCAT(
        SUBSTRING_INDEX(task.history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) + 1)), task.history), wanted.line),
    task.state = 1,
    task.due_at = wanted.to_due_at,
    task.updated_at = ?

-- name: withdraw
-- Cancels a task on request after it had fired, before an executor had it.
-- parameters: 1 the rows (JSON: [partition, due_at (ms), id, fence, history line, keep_until (ms)]), 2 now (ms).
-- moves: withdraw from (2, 3, 6) to 10
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    line LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]', keep_until BIGINT PATH '$[5]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (2, 3, 6)
SET
    task.history = CONCAT(IF(LENGTH(task.history) > 262144, CONCAT(
        SUBSTRING_INDEX(task.history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(task.history, LOCATE(CHAR(10 USING utf8mb4), task.history, CHAR_LENGTH(task.history) DIV 2) + 1)), task.history), wanted.line),
    task.state = 10,
    task.keep_until = wanted.keep_until,
    task.updated_at = ?

-- name: claim_by_key
-- Moves as `claim`, for rows that differ in nothing but their places: half the cost of a join with a list.
-- parameters: 1 history line, 2 now (ms), of each row: 3 partition, 4 due_at (ms), 5 id; 6 the state and 7 the fence
-- that all have.
-- holes: {rows} repeated for each row.
-- moves: claim from (1, 7) to 2
UPDATE task FORCE INDEX (PRIMARY) SET
    history = CONCAT(IF(LENGTH(history) > 262144, CONCAT(
        SUBSTRING_INDEX(history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), history, CHAR_LENGTH(history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(history, LOCATE(CHAR(10 USING utf8mb4), history, CHAR_LENGTH(history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(history, LOCATE(CHAR(10 USING utf8mb4), history, CHAR_LENGTH(history) DIV 2) + 1)), history), ?),
    state = 2,
    updated_at = ?
WHERE (partition_no, due_at, id) IN ({rows: (?, ?, ?)}) AND state IN (1, 7) AND state = ? AND fence = ?

-- name: dispatch_by_key
-- Moves as `dispatch`, for rows that differ in nothing but their places and instants: half the cost of a join with a
-- list. Assignments are made in their order.
-- parameters: 1 now (ms), 2 history line from behind its time, 3 executor, 4 lease_until (ms), 5 now (ms), of each
-- row: 6 partition, 7 due_at (ms), 8 id; 9 the state and 10 the fence that all have.
-- holes: {rows} repeated for each row, {fired_at} the instants: listed by id (ids in order, then the instant of each,
-- ms), one number of ms after all due times, or the column unchanged.
-- moves: dispatch from (1, 2, 3, 6, 7) to 4
UPDATE task FORCE INDEX (PRIMARY) SET
    fired_at = {fired_at},
    lease_since = GREATEST(fired_at, ?),
    history = CONCAT(IF(LENGTH(history) > 262144, CONCAT(
        SUBSTRING_INDEX(history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), history, CHAR_LENGTH(history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(history, LOCATE(CHAR(10 USING utf8mb4), history, CHAR_LENGTH(history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(history, LOCATE(CHAR(10 USING utf8mb4), history, CHAR_LENGTH(history) DIV 2) + 1)), history), '[', lease_since, ?),
    lease_executor = ?,
    lease_until = ?,
    state = 4,
    fence = fence + 1,
    attempt = attempt + 1,
    cancel_requested = 0,
    updated_at = ?,
    room = LEFT(room, 56)
WHERE (partition_no, due_at, id) IN ({rows: (?, ?, ?)}) AND state IN (1, 2, 3, 6, 7) AND state = ? AND fence = ?

-- name: start_by_key
-- Moves as `start`, for rows that differ in nothing but their places: half the cost of a join with a list.
-- parameters: 1 history line, 2 lease_until (ms) or NULL, 3 progress or NULL, 4 now (ms), of each row: 5 partition,
-- 6 due_at (ms), 7 id; 8 the state and 9 the fence that all have.
-- holes: {rows} repeated for each row.
-- moves: start from (4) to 5
UPDATE task FORCE INDEX (PRIMARY) SET
    history = CONCAT(IF(LENGTH(history) > 262144, CONCAT(
        SUBSTRING_INDEX(history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), history, CHAR_LENGTH(history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(history, LOCATE(CHAR(10 USING utf8mb4), history, CHAR_LENGTH(history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(history, LOCATE(CHAR(10 USING utf8mb4), history, CHAR_LENGTH(history) DIV 2) + 1)), history), ?),
    lease_until = COALESCE(?, lease_until),
    progress = COALESCE(?, progress),
    state = 5,
    updated_at = ?
WHERE (partition_no, due_at, id) IN ({rows: (?, ?, ?)}) AND state IN (4) AND state = ? AND fence = ?

-- name: succeed_by_key
-- Moves as `succeed`, for rows that differ in nothing but their places: half the cost of a join with a list.
-- parameters: 1 history line, 2 keep_until (ms), 3 result code, 4 message, 5 whether its body is JSON or NULL, 6 body
-- or NULL, 7 now (ms), of each row: 8 partition, 9 due_at (ms), 10 id; 11 the state and 12 the fence that all have.
-- If rows have results of their own, each of 1 to 6 is one of a list, found by the row's id, and the body is in base
-- 64 (alike.rs).
-- holes: {rows} repeated for each row, {fired_at} the instants: listed by id (ids in order, then the instant of each,
-- ms), one number of ms after all due times, or the column unchanged.
-- moves: succeed from (4, 5) to 8
UPDATE task FORCE INDEX (PRIMARY) SET
    fired_at = {fired_at},
    history = CONCAT(IF(LENGTH(history) > 262144, CONCAT(
        SUBSTRING_INDEX(history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), history, CHAR_LENGTH(history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(history, LOCATE(CHAR(10 USING utf8mb4), history, CHAR_LENGTH(history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(history, LOCATE(CHAR(10 USING utf8mb4), history, CHAR_LENGTH(history) DIV 2) + 1)), history), ?),
    keep_until = ?,
    result_code = ?, result_msg = ?, result_is_json = ?, result_body = ?,
    lease_executor = NULL, lease_since = NULL, lease_until = NULL, cancel_requested = 0,
    state = 8,
    updated_at = ?,
    room = ''
WHERE (partition_no, due_at, id) IN ({rows: (?, ?, ?)}) AND state IN (4, 5) AND state = ? AND fence = ?

-- name: move_in_time
-- Moves locked rows to another time, and changes nothing else of them. `save_places` runs in the same transaction.
-- parameters: 1 the rows (JSON: [number, partition, due_at (ms), id]), 2 the new due_at (ms).
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at AND task.id = wanted.id
SET task.due_at = ?

-- name: save_places
-- Saves where tasks are now, in the transaction that moves them there.
-- parameters: 1 the places (JSON: [number, partition, the new due_at (ms), id]).
INSERT INTO moved (partition_no, id, due_at)
SELECT wanted.partition_no, wanted.id, wanted.due_at
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
ON DUPLICATE KEY UPDATE due_at = VALUES(due_at)

-- name: read_moved_places
-- Reads where tasks are now that are no longer where their references say.
-- parameters: 1 the places (JSON: [number, partition, due_at (ms), id]).
-- answers: the number and due_at (ms).
SELECT wanted.nth, moved.due_at
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = wanted.partition_no AND moved.id = wanted.id
