-- Each row of a piece: its key, the same sum as in sums.sql, and about how many bytes it is.
-- Parameters: after (partition, due_at, partition, due_at, id; exclusive), up to (the same five; inclusive).
SELECT due_at, id, CAST(
    CAST(CONV(LEFT(SHA2(CONCAT_WS('|', due_at, id, CAST(namespace AS BINARY), task_id, task_version, CAST(queue AS BINARY),
        CAST(kind AS BINARY), priority, state, fence,
        attempt, max_attempts, execute_at, IFNULL(fired_at, '-'), created_at, updated_at, IFNULL(keep_until, '-'),
        place_due_at, IFNULL(timeout_ms, '-'), IFNULL(deadline_ms, '-'), IFNULL(SHA2(lease_executor, 256), '-'),
        IFNULL(lease_since, '-'), IFNULL(lease_until, '-'), cancel_requested, IFNULL(SHA2(retry, 256), '-'),
        IFNULL(SHA2(labels, 256), '-'), IFNULL(SHA2(traceparent, 256), '-'), IFNULL(SHA2(demands, 256), '-'),
        IFNULL(SHA2(progress, 256), '-'), IFNULL(SHA2(log, 256), '-'), IFNULL(result_code, '-'),
        IFNULL(SHA2(result_msg, 256), '-'), IFNULL(result_is_json, '-'), IFNULL(SHA2(result_body, 256), '-'),
        IFNULL(SHA2(last_error, 256), '-'), payload_is_json, IFNULL(SHA2(payload, 256), '-'), SHA2(history, 256)), 256), 16), 16, 10) AS UNSIGNED)
AS SIGNED), CAST(1000 + LENGTH(history) + IFNULL(LENGTH(result_msg), 0) + IFNULL(LENGTH(last_error), 0)
    + IFNULL(LENGTH(result_body), 0) + IF(payload IS NULL, 1000000, 0) AS SIGNED)
FROM task FORCE INDEX (PRIMARY)
WHERE ((partition_no = ? AND due_at > ?) OR (partition_no = ? AND due_at = ? AND id > ?))
    AND ((partition_no = ? AND due_at < ?) OR (partition_no = ? AND due_at = ? AND id <= ?))
