-- The earliest time at which an operation has something to do. In the catalog.
SELECT wake_at FROM bulk FORCE INDEX (bulk_wake) WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1
