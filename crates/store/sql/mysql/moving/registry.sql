-- The entries of copied tasks. One that a task left behind which is gone by now is taken over.
-- 1 the places (JSON: [number, partition, due_at (ms), id]).
INSERT INTO registry (partition_no, namespace, task_id, task_version, id, due_at)
SELECT task.partition_no, task.namespace, task.task_id, task.task_version, task.id, task.place_due_at
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at AND task.id = wanted.id
ON DUPLICATE KEY UPDATE id = VALUES(id), due_at = VALUES(due_at)
