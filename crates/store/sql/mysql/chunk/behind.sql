-- One row: an engine is alive that does not enter chunks. In the catalog.
SELECT 1 FROM engine
WHERE enters_chunks = 0 AND alive_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 LIMIT 1
