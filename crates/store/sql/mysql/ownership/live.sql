-- The engines that are alive, by name; 1: the hot set answers it, 0: not, 2: it has none; the databases that it does not reach (NULL: it does not
-- say).
SELECT name, has_hot, without_databases FROM engine
WHERE alive_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
ORDER BY name
