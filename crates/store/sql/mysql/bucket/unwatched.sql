-- Tasks in flight in a piece of a bucket whose leases ended so long ago that whoever looks for ended leases has not found
-- them, in the order of the key.
-- Parameters: begin and end of the bucket (ms), after (partition, partition, due_at, partition, due_at, id; exclusive),
-- up to (the same six; inclusive), ended at or before (ms), rows.
SELECT partition_no, due_at, id FROM task
WHERE due_at >= ? AND due_at < ?
    AND (partition_no > ?
        OR (partition_no = ? AND due_at > ?)
        OR (partition_no = ? AND due_at = ? AND id > ?))
    AND (partition_no < ?
        OR (partition_no = ? AND due_at < ?)
        OR (partition_no = ? AND due_at = ? AND id <= ?))
    AND state IN (4, 5) AND lease_until <= ?
ORDER BY partition_no, due_at, id LIMIT ?
