-- The long payload of a task that has a short one now. 1 partition, 2 task id.
DELETE FROM body WHERE partition_no = ? AND id = ?
