-- The new place of a partition, in the transaction that decides. 1 database, 2 partition.
UPDATE placement SET shard_no = ? WHERE partition_no = ?
