-- The next state of a partition that is locked. 1 state, 2 partition.
UPDATE hosted SET state = ? WHERE partition_no = ?
