-- Where copies of before could be looked up.
-- 1 the places (JSON: [number, partition, due_at (ms), id]).
DELETE lookup FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN lookup FORCE INDEX (lookup_of) ON lookup.partition_no = wanted.partition_no AND lookup.id = wanted.id
