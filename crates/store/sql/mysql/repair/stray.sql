-- A mark of copies whose move is over. 1 partition.
DELETE FROM hosted WHERE partition_no = ? AND state IN (3, 4)
