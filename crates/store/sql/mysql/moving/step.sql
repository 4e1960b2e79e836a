-- The last row of the next piece; none: the piece is the rest.
-- Parameters: after (partition, due_at, partition, due_at, id; exclusive), rows to skip.
SELECT due_at, id FROM task FORCE INDEX (PRIMARY)
WHERE (partition_no = ? AND due_at > ?) OR (partition_no = ? AND due_at = ? AND id > ?)
ORDER BY partition_no, due_at, id LIMIT 1 OFFSET ?
