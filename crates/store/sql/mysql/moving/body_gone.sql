-- Long payloads of copies of before.
-- 1 the places (JSON: [number, partition, due_at (ms), id]).
DELETE body FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN body FORCE INDEX (PRIMARY) ON body.partition_no = wanted.partition_no AND body.id = wanted.id
