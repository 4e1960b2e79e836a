-- As move/dispatch.sql, for rows that differ in nothing but their places and instants: half the
-- cost of a join with a list.
-- In order: ids in order, the fired_at (ms) of each, now (ms), history line from behind its time, executor, lease_until
-- (ms), now (ms), and of each row: partition, due_at (ms), id; at last the state and the fence that all have.
-- Where all rows fired equally long after their due time, that time (ms) stands for ids and instants.
-- moves: dispatch from (1, 2, 3, 6, 7) to 4
UPDATE task FORCE INDEX (PRIMARY) SET
    -- Assignments are made in their order.
    fired_at = CAST(ELT(INTERVAL(id, ?), ?) AS SIGNED),
    lease_since = GREATEST(fired_at, ?),
    history = CONCAT(IF(LENGTH(history) > 262144, CONCAT(
        SUBSTRING_INDEX(history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), history, CHAR_LENGTH(history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(history, LOCATE(CHAR(10 USING utf8mb4), history, CHAR_LENGTH(history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(history, LOCATE(CHAR(10 USING utf8mb4), history, CHAR_LENGTH(history) DIV 2) + 1)), history), '[', lease_since, ?),
    lease_executor = ?,
    lease_until = ?,
    state = 4,
    fence = fence + 1,
    attempt = attempt + 1,
    cancel_requested = 0,
    updated_at = ?,
    room = LEFT(room, 56)
WHERE (partition_no, due_at, id) IN ((?, ?, ?)) AND state IN (1, 2, 3, 6, 7) AND state = ? AND fence = ?
