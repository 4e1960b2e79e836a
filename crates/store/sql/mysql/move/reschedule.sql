-- Time, payload, priority or queue changed before it fired. A new fence, so that the old hot entry is refused.
-- 1 the rows (JSON: [partition, due_at (ms), id, fence, history line, the new due_at (ms), execute_at (ms), priority,
-- whether the payload is JSON, or null (payload as it was), payload (base64), or null when it goes to `body`, queue, or null
-- (as it was)]), 2 now (ms).
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
