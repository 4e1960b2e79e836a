-- What a partition left behind in lookup. 1 partition, 2 limit.
DELETE FROM lookup WHERE partition_no = ? LIMIT ?
