-- What the database's clock shows, in milliseconds: the clock that leases are compared on. No parameters.
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
