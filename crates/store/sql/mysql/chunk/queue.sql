-- The next queue of which there are chunks. 1 namespace, 2 the same, 3 queue.
SELECT namespace, queue FROM task_chunk FORCE INDEX (PRIMARY)
WHERE namespace > ? OR (namespace = ? AND queue > ?) ORDER BY namespace, queue LIMIT 1
