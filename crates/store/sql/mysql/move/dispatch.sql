-- Handed to an executor: spends an attempt and makes a new fence. The rows are read by lease/grant.sql before.
-- 1 the rows (JSON: [partition, due_at (ms), id, fence, fired_at (ms), now (ms), history line from
-- behind its time, executor, lease_until (ms, already bounded by timeout_ms), the code of the state that it is in]), 2 now (ms).
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
