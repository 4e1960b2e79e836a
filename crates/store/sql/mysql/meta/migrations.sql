-- The migrations that this database has, in order.
SELECT position, name, checksum FROM migration ORDER BY position
