-- What a partition left behind in registry. 1 partition, 2 limit.
DELETE FROM registry WHERE partition_no = ? LIMIT ?
