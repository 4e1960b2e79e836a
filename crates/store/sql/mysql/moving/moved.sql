-- Where copied tasks are that are not where their references say.
-- 1 the places (JSON: [number, partition, due_at (ms), id]).
INSERT INTO moved (partition_no, id, due_at)
SELECT task.partition_no, task.id, task.due_at
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at AND task.id = wanted.id
    AND task.due_at <> task.place_due_at
ON DUPLICATE KEY UPDATE due_at = VALUES(due_at)
