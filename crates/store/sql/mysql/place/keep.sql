-- Where tasks are now, in the transaction that moves them there.
-- 1 the places (JSON: [number, partition, the new due_at (ms), id]).
INSERT INTO moved (partition_no, id, due_at)
SELECT wanted.partition_no, wanted.id, wanted.due_at
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
ON DUPLICATE KEY UPDATE due_at = VALUES(due_at)
