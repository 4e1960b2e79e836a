-- A new mover that deletes what a partition has left behind. 1 term, 2 partition, 3 term.
UPDATE hosted SET term = ? WHERE partition_no = ? AND state = 4 AND term < ?
