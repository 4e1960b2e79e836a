-- The last row of the next piece of a bucket; none: the piece is the rest.
-- Parameters: begin and end of the bucket (ms),
-- after (partition, partition, due_at, partition, due_at, id; exclusive), rows to skip.
SELECT partition_no, due_at, id FROM task
WHERE due_at >= ? AND due_at < ?
    AND (partition_no > ?
        OR (partition_no = ? AND due_at > ?)
        OR (partition_no = ? AND due_at = ? AND id > ?))
ORDER BY partition_no, due_at, id LIMIT 1 OFFSET ?
