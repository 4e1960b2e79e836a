-- The partitions that this database has, with their states.
SELECT partition_no FROM hosted WHERE state IN (1, 2) ORDER BY partition_no
