-- task_gone is settled up to here, in the transaction that settled it.
-- Parameters: partition, due_at (ms), id.
UPDATE gone_to SET partition_no = ?, due_at = ?, id = ? WHERE one = 1
