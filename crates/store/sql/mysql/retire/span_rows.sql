-- Tasks of a span, in the order of the key. 1 partition, 2 after this due_at (ms), 3 until this due_at (ms), or 4 partition,
-- 5 at the first and 6 after this id; 7 limit.
SELECT partition_no, due_at, id, state, keep_until FROM task FORCE INDEX (PRIMARY)
WHERE (partition_no = ? AND due_at > ? AND due_at <= ?) OR (partition_no = ? AND due_at = ? AND id > ?)
ORDER BY partition_no, due_at, id LIMIT ?
