-- The rows of a piece that must be kept, in the order of the key: not finished, or their time is not over. A success
-- becomes stopped first.
-- Parameters: begin and end of the bucket (ms), after (partition, partition, due_at, partition, due_at, id; exclusive),
-- up to (the same six; inclusive), now (ms), rows.
SELECT partition_no, due_at, id FROM task
WHERE due_at >= ? AND due_at < ?
    AND (partition_no > ?
        OR (partition_no = ? AND due_at > ?)
        OR (partition_no = ? AND due_at = ? AND id > ?))
    AND (partition_no < ?
        OR (partition_no = ? AND due_at < ?)
        OR (partition_no = ? AND due_at = ? AND id <= ?))
    AND (state NOT IN (9, 10, 11) OR keep_until > ?)
ORDER BY partition_no, due_at, id LIMIT ?
