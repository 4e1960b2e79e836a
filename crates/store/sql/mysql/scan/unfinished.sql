-- Of what walk.sql reads, what is not finished: for a short range, of which nothing else need be sent.
-- 1 partition, 2 due_at (ms), 3 due before (ms), 4 partition, 5 due_at (ms), 6 after this id, 7 limit.
SELECT due_at, id
FROM task FORCE INDEX (PRIMARY)
WHERE ((partition_no = ? AND due_at > ? AND due_at < ?) OR (partition_no = ? AND due_at = ? AND id > ?))
    AND state NOT IN (8, 9, 10, 11)
ORDER BY partition_no, due_at, id LIMIT ?
