-- Entries of tasks that are gone.
-- 1 the places (JSON: [number, partition, due_at (ms), id]).
DELETE registry FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN registry FORCE INDEX (registry_newest) ON registry.id = wanted.id AND registry.partition_no = wanted.partition_no
