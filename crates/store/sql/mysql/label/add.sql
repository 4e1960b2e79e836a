-- Where tasks can be looked up. One that is entered already stays. For each row: 1 term, 2 id, 3 partition.
INSERT IGNORE INTO lookup (term, id, partition_no)
VALUES (?, ?, ?)
