-- Engines that have not left, by name: until when each counts as alive, for how long it has been silent (ms, 0: it is
-- alive), and whether the hot set answers it. On the database's clock. 1 limit.
SELECT name, alive_until,
    GREATEST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 - alive_until, 0) AS silent_ms, has_hot
FROM engine ORDER BY name LIMIT ?
