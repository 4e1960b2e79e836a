-- The executor reports success. A lease that has ended, but was not collected yet, still counts.
-- 1 the rows (JSON: [partition, due_at (ms), id, fence, fired_at (ms; null: as it was), history line, keep_until (ms),
-- result code, message, whether its body is JSON, body (base64), all four null: no result, the code of the state that it is in]), 2 now (ms).
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
