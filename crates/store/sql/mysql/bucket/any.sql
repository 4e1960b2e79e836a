-- One row if the bucket has any.
-- Parameters: its begin (ms), its end (ms, exclusive).
SELECT 1 FROM task WHERE due_at >= ? AND due_at < ? LIMIT 1
