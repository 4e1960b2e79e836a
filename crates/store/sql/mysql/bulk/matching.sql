-- Where the tasks are that match, newest first, inside a range of ids that bounds the work; in partitions that are here.
-- 1 whether labels are wanted, 2 and 3 the partitions that are meant (a comma between two; NULL: all), 4 below this id, 5 down to
-- this id, 6 the states (bits); each other condition holds only if it is not NULL, and is given twice: 7 and 8 namespace, 9 and
-- 10 queue, 11 and 12 kind, 13 and 14 due from (ms), 15 and 16 due before (ms), 17 and 18 a label as it stands in the text of
-- all labels (the caller looks again: it may be in another's value), 19 and 20 a text in its last error, 21 and 22 made until
-- (ms), 23 limit.
SELECT STRAIGHT_JOIN registry.partition_no, registry.due_at, registry.id, IF(?, labels, NULL)
FROM registry
JOIN (
    SELECT hosted.partition_no AS here_no FROM hosted FORCE INDEX (PRIMARY)
    WHERE hosted.state IN (1, 2) AND (? IS NULL OR FIND_IN_SET(hosted.partition_no, ?) > 0)
) AS here
    ON here.here_no = registry.partition_no
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = registry.partition_no AND moved.id = registry.id
JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = registry.partition_no AND task.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task.id = registry.id
WHERE registry.id < ? AND registry.id >= ?
    AND (? >> state) & 1 = 1
    AND (? IS NULL OR task.namespace = ?)
    AND (? IS NULL OR queue = ?)
    AND (? IS NULL OR kind = ?)
    AND (? IS NULL OR task.due_at >= ?)
    AND (? IS NULL OR task.due_at < ?)
    AND (? IS NULL OR INSTR(labels, ?) > 0)
    AND (? IS NULL OR LOCATE(CAST(? AS BINARY), CAST(last_error AS BINARY)) > 0)
    AND (? IS NULL OR created_at <= ?)
ORDER BY registry.id DESC LIMIT ?
