-- A new mover that deletes copies. 1 term, 2 partition, 3 term.
UPDATE hosted SET term = ? WHERE partition_no = ? AND state = 3 AND term < ?
