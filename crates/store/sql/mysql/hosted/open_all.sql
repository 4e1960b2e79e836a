-- As open_some.sql, for a transaction that does not know beforehand in which partitions it will write.
BEGIN;
SELECT partition_no FROM hosted WHERE state = 1 LOCK IN SHARE MODE
