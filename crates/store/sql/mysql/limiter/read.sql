-- What the limiter of engines without Redis keeps, the version of it that stands, and the database's clock (ms).
-- Parameters: the version whose value is known (NULL is answered in its place).
SELECT version, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000, IF(version = ?, NULL, state)
FROM limiter WHERE one = 1
