-- Ids of callers that stand already in a range. 1 partition (a list), 2 namespace, 3 from task_id, 4 to task_id (inclusive),
-- 5 most rows.
SELECT task_id FROM registry FORCE INDEX (PRIMARY)
WHERE partition_no IN (?) AND namespace = ? AND task_id BETWEEN ? AND ?
LIMIT ?
