-- What a partition left behind in moved. 1 partition, 2 limit.
DELETE FROM moved WHERE partition_no = ? LIMIT ?
