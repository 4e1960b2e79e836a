-- When the earliest task of a partition is due, in whatever state it is.
-- Parameters: partition.
SELECT due_at FROM task FORCE INDEX (PRIMARY) WHERE partition_no = ? ORDER BY due_at, id LIMIT 1
