-- Not started by its deadline.
-- 1 the rows (JSON: [partition, due_at (ms), id, fence, history line, keep_until (ms), error or null]), 2 now (ms).
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
