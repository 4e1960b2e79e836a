-- Begins a transaction that writes, and holds its partitions: until it ends, none of them leaves. Answers those that
-- may be written here. In one round trip; hence numbers in the text.
-- Braces: partitions.
BEGIN;
SELECT partition_no FROM hosted FORCE INDEX (PRIMARY) WHERE partition_no IN ({partitions}) AND state = 1 LOCK IN SHARE MODE
