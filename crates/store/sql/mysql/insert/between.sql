-- Task ids that stand in a range of one namespace, each as often as it has versions. 1 partition (a list), 2 namespace,
-- 3 from task_id, 4 to task_id (inclusive), 5 most rows. The order keeps the server from reading the whole registry
-- while it believes that there are no rows, as it does after a start until it has counted them.
SELECT partition_no, task_id FROM registry FORCE INDEX (PRIMARY)
WHERE partition_no IN (?) AND namespace = ? AND task_id BETWEEN ? AND ?
ORDER BY partition_no, namespace, task_id
LIMIT ?
