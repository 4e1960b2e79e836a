-- As move/claim.sql, for rows that differ in nothing but their places: half the
-- cost of a join with a list.
-- In order: history line, now (ms), and of each row: partition, due_at (ms), id; at last the state and the
-- fence that all have.
-- moves: claim from (1, 7) to 2
UPDATE task FORCE INDEX (PRIMARY) SET
    history = CONCAT(IF(LENGTH(history) > 262144, CONCAT(
        SUBSTRING_INDEX(history, CHAR(10 USING utf8mb4), 1), ' +', LOCATE(CHAR(10 USING utf8mb4), history, CHAR_LENGTH(history) DIV 2) - 1
            - CHAR_LENGTH(REPLACE(LEFT(history, LOCATE(CHAR(10 USING utf8mb4), history, CHAR_LENGTH(history) DIV 2)), CHAR(10 USING utf8mb4), '')),
        CHAR(10 USING utf8mb4), SUBSTRING(history, LOCATE(CHAR(10 USING utf8mb4), history, CHAR_LENGTH(history) DIV 2) + 1)), history), ?),
    state = 2,
    updated_at = ?
WHERE (partition_no, due_at, id) IN ((?, ?, ?)) AND state IN (1, 7) AND state = ? AND fence = ?
