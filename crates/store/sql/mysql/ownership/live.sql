-- The engines that are alive, by name; 1: the hot set answers it.
SELECT name, has_hot FROM engine
WHERE alive_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
ORDER BY name
