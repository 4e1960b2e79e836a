-- How many rows there are between the first and the last of some, or the limit.
-- In order: of each partition its number and due_at from and to (ms), limit.
SELECT COUNT(*) FROM (
    SELECT 1 FROM task FORCE INDEX (PRIMARY) WHERE ((partition_no = ? AND due_at BETWEEN ? AND ?)) LIMIT ?
) AS near
