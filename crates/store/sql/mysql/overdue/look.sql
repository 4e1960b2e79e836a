-- Tasks of one partition whose time has come and that have not fired: scheduled, dispatching or retrying. The range is
-- kept short by who asks: its finished rows are read as well, and not sent.
-- 1 partition, 2 due after (ms, exclusive), 3 due until (ms, inclusive), 4 partition, 5 due_at (ms), 6 after this id,
-- 7 limit.
SELECT due_at, id, place_due_at, fence
FROM task FORCE INDEX (PRIMARY)
WHERE ((partition_no = ? AND due_at > ? AND due_at <= ?) OR (partition_no = ? AND due_at = ? AND id > ?))
    AND state IN (1, 2, 7)
ORDER BY partition_no, due_at, id LIMIT ?
