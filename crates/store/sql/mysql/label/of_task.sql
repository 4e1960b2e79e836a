-- The labels and the kind of one task, whose row is locked. 1 partition, 2 due_at (ms), 3 id.
SELECT labels, kind FROM task FORCE INDEX (PRIMARY) WHERE partition_no = ? AND due_at = ? AND id = ?
