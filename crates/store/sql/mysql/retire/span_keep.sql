-- When to look at spans again. For each row: 1 partition, 2 due_at (ms), 3 id, 4 when (ms).
INSERT INTO retention_span (partition_no, due_at, id, look_at)
VALUES (?, ?, ?, ?)
ON DUPLICATE KEY UPDATE look_at = VALUES(look_at)
