-- Gives partitions that the engine holds by these tenures a higher term: the hot set has seen newer ones. Whoever has lost
-- its lease, or has another term, raises nothing.
-- Parameters: term, engine, partitions, tenures (term * 65536 + partition).
UPDATE owner SET term = GREATEST(term, ?)
WHERE engine = ? AND held_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
    AND partition_no IN (?/*, ?*/)
    AND term * 65536 + partition_no IN (?/*, ?*/)
