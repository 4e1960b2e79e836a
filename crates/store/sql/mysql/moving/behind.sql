-- Engines that are alive and could not follow: they name fewer databases, or are of an older version.
-- 1 databases.
SELECT name, names_databases FROM engine
WHERE alive_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 AND names_databases < ?
ORDER BY name
