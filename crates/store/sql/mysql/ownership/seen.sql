-- Who has these partitions; 1 where it is this engine and its lease has not ended.
-- Parameters: engine, partitions.
SELECT partition_no, term,
    CAST(engine = ? AND held_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 AS SIGNED) AS holds
FROM owner
WHERE partition_no IN (?/*, ?*/)
