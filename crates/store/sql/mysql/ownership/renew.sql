-- Makes leases that have not ended last longer. A tenure is told by one number, term * 65536 + partition: pairs in a
-- list would not be looked up by key.
-- Parameters: ttl (ms), engine, partitions, tenures.
UPDATE owner SET held_until = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 + ?
WHERE engine = ? AND held_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
    AND partition_no IN (?/*, ?*/)
    AND term * 65536 + partition_no IN (?/*, ?*/)
