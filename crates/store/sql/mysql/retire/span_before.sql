-- Where the span before one ends. 1 partition, 2 before this due_at (ms), or 3 partition, 4 at it and 5 before this id.
SELECT due_at, id FROM retention_span FORCE INDEX (PRIMARY)
WHERE (partition_no = ? AND due_at < ?) OR (partition_no = ? AND due_at = ? AND id < ?)
ORDER BY partition_no DESC, due_at DESC, id DESC LIMIT 1
