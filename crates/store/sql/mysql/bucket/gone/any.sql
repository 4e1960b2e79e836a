-- One row if task_gone has any, settled or not.
SELECT 1 FROM task_gone LIMIT 1
