-- A span that has no tasks any more joins the next one. 1 partition, 2 due_at (ms), 3 id.
DELETE FROM retention_span WHERE partition_no = ? AND due_at = ? AND id = ?
