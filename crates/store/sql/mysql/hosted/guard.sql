-- At the beginning of a mover's transaction: none, if another mover has taken over, or somebody went on without it.
-- 1 partition, 2 state, 3 term.
SELECT state FROM hosted WHERE partition_no = ? AND state = ? AND term = ? FOR UPDATE
