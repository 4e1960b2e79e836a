-- After gone_back.sql, in its transaction: what stands in task again leaves the bucket that was dropped.
-- 1 their references (JSON: [number, partition, due_at (ms), id]).
DELETE task_gone
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = wanted.partition_no AND moved.id = wanted.id
JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = COALESCE(moved.due_at, wanted.due_at)
    AND task.id = wanted.id
JOIN task_gone FORCE INDEX (PRIMARY)
    ON task_gone.partition_no = task.partition_no AND task_gone.due_at = task.due_at AND task_gone.id = task.id
