-- Nothing of the partition is here any more. 1 partition, 2 state (arriving or left), 3 term.
DELETE FROM hosted WHERE partition_no = ? AND state = ? AND term = ?
