-- Says which database has a partition; what stands wins. For each row: 1 partition, 2 number of the database.
INSERT IGNORE INTO placement (partition_no, shard_no)
VALUES (?, ?)
