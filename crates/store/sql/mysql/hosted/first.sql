-- The partitions that a database has from the beginning. For each row: 1 partition.
INSERT IGNORE INTO hosted (partition_no, state, term)
VALUES (?, 1, 0)
