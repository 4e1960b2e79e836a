-- Puts back tasks of a bucket that was dropped and waits to be archived or settled, where they stood: not those that are
-- settled. gone_lock.sql is held. 1 their references (JSON: [number, partition, due_at (ms), id]).
INSERT INTO task
SELECT STRAIGHT_JOIN task_gone.*
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = wanted.partition_no AND moved.id = wanted.id
JOIN task_gone FORCE INDEX (PRIMARY)
    ON task_gone.partition_no = wanted.partition_no AND task_gone.due_at = COALESCE(moved.due_at, wanted.due_at)
    AND task_gone.id = wanted.id
JOIN gone_to FORCE INDEX (PRIMARY) ON gone_to.one = 1
    AND (task_gone.partition_no > gone_to.partition_no
        OR (task_gone.partition_no = gone_to.partition_no AND task_gone.due_at > gone_to.due_at)
        OR (task_gone.partition_no = gone_to.partition_no AND task_gone.due_at = gone_to.due_at
            AND task_gone.id > gone_to.id))
