-- The moves that are not over; 1 where a closed partition may be opened again by anybody.
SELECT partition_no, from_shard, to_shard, step, term, CAST(closed_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 AS SIGNED)
FROM partition_move ORDER BY partition_no
