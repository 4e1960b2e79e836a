-- The executor asks for a later time: the attempt is given back. A new fence, so that the old lease is refused.
-- 1 the rows (JSON: [partition, due_at (ms), id, fence, history line, the new due_at (ms), deadline_ms or null]), 2
-- now (ms).
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
    -- The deadline is an instant: it stays where it was when execute_at, from which it counts, moves.
    task.deadline_ms = wanted.deadline_ms,
    task.execute_at = wanted.to_due_at,
    task.due_at = wanted.to_due_at,
    task.fired_at = NULL,
    task.lease_executor = NULL, task.lease_since = NULL, task.lease_until = NULL, task.cancel_requested = 0,
    task.updated_at = ?
