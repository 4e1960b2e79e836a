-- Where tasks are now that are no longer where their references say.
-- 1 the places (JSON: [number, partition, due_at (ms), id]). Answers the number and due_at (ms).
SELECT wanted.nth, moved.due_at
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = wanted.partition_no AND moved.id = wanted.id
