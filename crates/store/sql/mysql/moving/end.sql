-- A move is over, or undone. 1 partition, 2 step, 3 term.
DELETE FROM partition_move WHERE partition_no = ? AND step = ? AND term = ?
