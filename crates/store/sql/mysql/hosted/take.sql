-- A new mover at the old place: the one before may do nothing here any more, and what it closed is open again.
-- 1 term, 2 partition, 3 term.
UPDATE hosted SET state = 1, term = ? WHERE partition_no = ? AND state IN (1, 2) AND term < ?
