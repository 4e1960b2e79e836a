-- Where a walk over so many rows of one partition ends, whatever their state, which is read so that the key is searched as
-- a range: of the key alone the server would read all of the partition. No row: the range has fewer.
-- 1 partition, 2 due after (ms, exclusive), 3 due until (ms, inclusive), 4 partition, 5 due_at (ms), 6 after this id,
-- 7 how many rows are passed before it.
SELECT due_at, id, state
FROM task FORCE INDEX (PRIMARY)
WHERE (partition_no = ? AND due_at > ? AND due_at <= ?) OR (partition_no = ? AND due_at = ? AND id > ?)
ORDER BY partition_no, due_at, id LIMIT 1 OFFSET ?
