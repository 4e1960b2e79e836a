-- Opens what an earlier mover had closed; never what a later one has closed. 1 term, 2 partition, 3 term.
UPDATE hosted SET state = 1, term = ? WHERE partition_no = ? AND state = 2 AND term < ?
