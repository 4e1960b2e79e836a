-- The old place is about to be closed, or is kept closed a while longer. The clock is the catalog's.
-- 1 for how long (ms), 2 partition, 3 term.
UPDATE partition_move SET step = 2, closed_until = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 + ?
WHERE partition_no = ? AND term = ? AND step IN (1, 2)
