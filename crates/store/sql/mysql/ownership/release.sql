-- Ends leases at once. What has ended by itself, or has another owner by now, stays as it is.
-- Parameters: engine, partitions, tenures (term * 65536 + partition).
UPDATE owner SET held_until = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
WHERE engine = ? AND held_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
    AND partition_no IN (?/*, ?*/)
    AND term * 65536 + partition_no IN (?/*, ?*/)
