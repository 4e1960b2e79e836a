-- Moves rows to another time, and nothing else of them: they are locked, and `moved` is told in the same transaction.
-- 1 the rows (JSON: [number, partition, due_at (ms), id]), 2 the new due_at (ms).
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at AND task.id = wanted.id
SET task.due_at = ?
