-- An engine that stops; and those that fell silent more than an hour ago, so that dead names do not pile up.
-- Parameters: engine.
DELETE FROM engine
WHERE name = ? OR alive_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 - 3600000
