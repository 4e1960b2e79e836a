-- Leases of a piece, for the entries by which their ends are found.
-- Parameters: after (partition, due_at, partition, due_at, id; exclusive), up to (the same five; inclusive).
SELECT due_at, id, fence, lease_until FROM task FORCE INDEX (PRIMARY)
WHERE ((partition_no = ? AND due_at > ?) OR (partition_no = ? AND due_at = ? AND id > ?))
    AND ((partition_no = ? AND due_at < ?) OR (partition_no = ? AND due_at = ? AND id <= ?))
    AND state IN (4, 5)
