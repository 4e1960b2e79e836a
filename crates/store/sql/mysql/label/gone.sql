-- A task that has other labels now, or is in another queue. 1 partition, 2 id.
DELETE FROM lookup WHERE partition_no = ? AND id = ?
