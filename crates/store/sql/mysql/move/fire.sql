-- Its instant has come, and nobody takes it at once.
-- 1 the rows (JSON: [partition, due_at (ms), id, fence, history line, fired_at (ms)]), 2 now (ms).
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
