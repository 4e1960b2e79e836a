-- Rows for partitions that nobody ever asked for; those that are there stay as they are.
-- Parameters: partitions.
INSERT IGNORE INTO owner (partition_no, engine, term, held_until)
VALUES (?, '', 0, 0)/*, (?, '', 0, 0)*/
