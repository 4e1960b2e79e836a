-- The chunk of the last row of a page of one queue; none: the page is the rest. 1 namespace, 2 queue, 3 above this chunk, 4 rows to
-- skip.
SELECT chunk FROM task_chunk FORCE INDEX (PRIMARY)
WHERE namespace = ? AND queue = ? AND chunk > ? ORDER BY namespace, queue, chunk LIMIT 1 OFFSET ?
