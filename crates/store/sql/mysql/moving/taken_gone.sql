-- 1 partition.
DELETE FROM taken_along WHERE partition_no = ?
