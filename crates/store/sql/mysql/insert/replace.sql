-- The same id and version came again and takes the place of what was there. Its reference stays good.
-- 1 queue, 2 kind, 3 priority, 4 max_attempts, 5 execute_at (ms), 6 timeout_ms or NULL, 7 deadline_ms or NULL,
-- 8 retry (JSON) or NULL (default), 9 labels (JSON) or NULL, 10 traceparent or NULL, 11 demands (JSON) or NULL,
-- 12 whether the payload is JSON, 13 payload, or NULL when it goes to `body`, 14 now (ms), 15 and 16 the history line
-- around "<state>,<attempt>", 17 new due_at (ms); of the row as it was read and locked: 18 partition, 19 due_at (ms),
-- 20 id.
-- The state is set last: MySQL lets an assignment see those before it.
-- moves: replace from (1, 2, 3, 6, 7, 9, 10, 11, 12) to 1
UPDATE task FORCE INDEX (PRIMARY) SET
    fence = fence + 1,
    attempt = 0,
    queue = ?,
    kind = ?,
    priority = ?,
    max_attempts = ?,
    execute_at = ?,
    fired_at = NULL,
    keep_until = NULL,
    timeout_ms = ?,
    deadline_ms = ?,
    lease_executor = NULL, lease_since = NULL, lease_until = NULL, cancel_requested = 0,
    retry = ?,
    labels = ?,
    traceparent = ?,
    demands = ?,
    progress = NULL,
    log = NULL,
    result_code = NULL, result_msg = NULL, result_is_json = NULL, result_body = NULL,
    last_error = NULL,
    payload_is_json = ?,
    payload = ?,
    updated_at = ?,
    history = CONCAT(IF(LENGTH(history) > 262144, CONCAT(
        SUBSTRING_INDEX(history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), history, CHAR_LENGTH(history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(history, LOCATE(CHAR(10 USING utf8mb4), history, CHAR_LENGTH(history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(history, LOCATE(CHAR(10 USING utf8mb4), history, CHAR_LENGTH(history) DIV 2) + 1)), history), ?, state, ',', 0, ?),
    due_at = ?,
    state = 1
WHERE partition_no = ? AND due_at = ? AND id = ? AND state IN (1, 2, 3, 6, 7, 9, 10, 11, 12)
