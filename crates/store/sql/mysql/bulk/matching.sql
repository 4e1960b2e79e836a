-- Where the tasks are that match, newest first, inside a range of ids that bounds the work; in partitions that are here.
-- 1 whether labels are wanted, 2 below this id, 3 down to this id, 4 the states (bits); each other condition holds only if
-- it is not NULL, and is given twice: 5 and 6 namespace, 7 and 8 queue, 9 and 10 kind, 11 and 12 due from (ms), 13 and 14
-- due before (ms), 15 and 16 a label as it stands in the text of all labels (the caller looks again: it may be in another's
-- value), 17 and 18 a text in its last error, 19 and 20 made until (ms), 21 limit.
SELECT STRAIGHT_JOIN registry.partition_no, registry.due_at, registry.id, IF(?, labels, NULL)
FROM registry
JOIN (SELECT hosted.partition_no AS here_no FROM hosted FORCE INDEX (PRIMARY) WHERE hosted.state IN (1, 2)) AS here
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
