-- What stands in a partition was accepted where it stands. 1 one or minus one, 2 partition.
INSERT INTO counters (slot, name, value)
SELECT -2, 'accepted', ? * COALESCE(SUM(tasks), 0) FROM taken_along WHERE partition_no = ?
ON DUPLICATE KEY UPDATE value = counters.value + VALUES(value)
