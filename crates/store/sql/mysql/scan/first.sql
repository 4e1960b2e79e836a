-- Whether, and where, the first waiting task is in a range of the past: nearly all rows there are finished, and reading
-- what scan.sql reads of each of them would cost three times as much.
-- 1 partition, 2 due after (ms, exclusive), 3 due until (ms, inclusive).
SELECT due_at
FROM task FORCE INDEX (PRIMARY)
WHERE partition_no = ? AND due_at > ? AND due_at <= ? AND state IN (1, 2, 3, 6, 7)
ORDER BY due_at, id LIMIT 1
