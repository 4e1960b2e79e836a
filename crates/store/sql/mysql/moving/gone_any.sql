-- One row if a bucket is being dropped, and its tasks are in between.
SELECT 1 FROM task_gone LIMIT 1
