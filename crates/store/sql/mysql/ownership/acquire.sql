-- Takes what is free or has ended, under a new term, and what the engine still holds, under the same. The term is
-- assigned first, because an assignment sees those before it.
-- Parameters: engine, engine, ttl (ms), engine, partitions.
UPDATE owner SET
    term = term + (engine <> ? OR held_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000),
    engine = ?,
    held_until = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 + ?
WHERE (engine = ? OR held_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)
    AND partition_no IN (?/*, ?*/)
