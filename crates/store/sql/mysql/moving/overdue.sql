-- Nobody has kept it closed: it goes back to copying, under a new term, which that mover does not know.
-- 1 term, 2 partition, 3 the term as it was.
UPDATE partition_move SET step = 1, term = ?
WHERE partition_no = ? AND term = ? AND step = 2 AND closed_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
