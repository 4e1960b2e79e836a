-- Marks a task in flight, so that its executor learns that it should stop. No move.
-- 1 now (ms), 2 partition, 3 due_at (ms), 4 id.
UPDATE task FORCE INDEX (PRIMARY) SET cancel_requested = 1, updated_at = ?
WHERE partition_no = ? AND due_at = ? AND id = ? AND state IN (4, 5)
