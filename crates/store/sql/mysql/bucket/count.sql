-- What a piece of a bucket has: rows; unfinished ones; finished ones whose time lasts; successes whose time is over and
-- that retention has not stopped yet. The second and the third are what is still needed.
-- Parameters: now (ms), now (ms), begin and end of the bucket (ms), after (partition, partition, due_at, partition, due_at,
-- id; exclusive), up to (the same six; inclusive).
SELECT COUNT(*),
    CAST(COALESCE(SUM(state NOT IN (8, 9, 10, 11)), 0) AS SIGNED),
    CAST(COALESCE(SUM(state IN (8, 9, 10, 11) AND keep_until > ?), 0) AS SIGNED),
    CAST(COALESCE(SUM(state = 8 AND keep_until <= ?), 0) AS SIGNED)
FROM task
WHERE due_at >= ? AND due_at < ?
    AND (partition_no > ?
        OR (partition_no = ? AND due_at > ?)
        OR (partition_no = ? AND due_at = ? AND id > ?))
    AND (partition_no < ?
        OR (partition_no = ? AND due_at < ?)
        OR (partition_no = ? AND due_at = ? AND id <= ?))
