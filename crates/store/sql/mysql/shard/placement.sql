-- Which database has which partition, in order of the partitions.
SELECT partition_no, shard_no FROM placement ORDER BY partition_no
