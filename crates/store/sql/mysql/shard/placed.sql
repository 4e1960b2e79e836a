-- How many partitions have a database.
SELECT COUNT(*) FROM placement
