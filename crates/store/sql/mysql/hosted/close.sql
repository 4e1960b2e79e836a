-- From here on nobody writes in the partition. Waits for transactions under way, but not for long: whoever comes
-- meanwhile waits behind. 1 partition, 2 term.
UPDATE hosted SET state = 2 WHERE partition_no = ? AND state = 1 AND term = ?
