-- What a partition left behind in body. 1 partition, 2 limit.
DELETE FROM body WHERE partition_no = ? LIMIT ?
