-- Task ids that stand already, of a short range of those that the engine gives. 1 partition (a list), 2 namespace,
-- 3 from task_id, 4 to task_id (inclusive).
SELECT partition_no, task_id FROM registry FORCE INDEX (PRIMARY)
WHERE partition_no IN (?) AND namespace = ? AND task_id BETWEEN ? AND ?
