-- The next chunk of a queue. 1 namespace, 2 queue, 3 above this chunk.
SELECT chunk FROM task_chunk FORCE INDEX (PRIMARY)
WHERE namespace = ? AND queue = ? AND chunk > ? ORDER BY namespace, queue, chunk LIMIT 1
