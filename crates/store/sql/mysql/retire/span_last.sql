-- The last spans of partitions, where they are missing. 1 the partitions (JSON: array of numbers).
INSERT IGNORE INTO retention_span (partition_no, due_at, id, look_at)
SELECT wanted.partition_no, 9223372036854775807, 9223372036854775807, 0
FROM JSON_TABLE(?, '$[*]' COLUMNS (partition_no INT PATH '$')) AS wanted
