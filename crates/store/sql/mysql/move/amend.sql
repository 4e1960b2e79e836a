-- What a caller asked for is changed while the task is dead: it stays so. A new fence, so that of two changes one is refused.
-- 1 the rows (JSON: [partition, due_at (ms), id, fence, history line, max_attempts or null (as it was), priority or null (as it
-- was), whether the payload is JSON, or null (payload as it was), payload (base64), or null when it goes to `body`, timeout_ms or
-- null (as it was), whether there is a new retry, retry (JSON) or null (default)]), 2 now (ms).
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
