-- task_gone is archived up to here.
-- Parameters: partition, due_at (ms), id.
INSERT INTO gone_to (one, partition_no, due_at, id) VALUES (2, ?, ?, ?)
ON DUPLICATE KEY UPDATE partition_no = VALUES(partition_no), due_at = VALUES(due_at), id = VALUES(id)
