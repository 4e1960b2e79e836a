-- What a partition left behind in task. 1 partition, 2 limit.
DELETE FROM task WHERE partition_no = ? LIMIT ?
