-- As move/succeed.sql, for rows that differ in nothing but their places: half the
-- cost of a join with a list.
-- In order: ids in order, the fired_at (ms) of each (where all fired equally long after their due time, that time (ms) stands
-- for both; where it is to stay as it is, nothing does), history line, keep_until (ms), result code, message, whether its body is JSON or NULL,
-- body or NULL, now (ms), and of each row: partition, due_at (ms), id; at last the state and the fence that all have.
-- Where rows have results of their own, each value from the history line to the body is one of a list, found by the row's id, and the
-- body is in base 64 (mysql/alike.rs).
-- moves: succeed from (4, 5) to 8
UPDATE task FORCE INDEX (PRIMARY) SET
    fired_at = CAST(ELT(INTERVAL(id, ?), ?) AS SIGNED),
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
WHERE (partition_no, due_at, id) IN ((?, ?, ?)) AND state IN (4, 5) AND state = ? AND fence = ?
