-- As matching.sql, among the tasks that are entered under a term, inside a range of ids that bounds the work.
-- 1 whether labels are wanted, 2 and 3 the partitions that are meant (a comma between two; NULL: all), 4 term, 5 below this id,
-- 6 down to this id, 7 the states (bits); each other condition holds only if it is not NULL, and is given twice: 8 and 9
-- namespace, 10 and 11 queue, 12 and 13 kind, 14 and 15 due from (ms), 16 and 17 due before (ms), 18 and 19 a label as it stands
-- in the text of all labels, 20 and 21 a text in its last error, 22 and 23 made until (ms), 24 limit.
SELECT STRAIGHT_JOIN registry.partition_no, registry.due_at, registry.id, IF(?, labels, NULL)
FROM lookup FORCE INDEX (PRIMARY)
JOIN registry FORCE INDEX (registry_newest) ON registry.id = lookup.id AND registry.partition_no = lookup.partition_no
JOIN (
    SELECT hosted.partition_no AS here_no FROM hosted FORCE INDEX (PRIMARY)
    WHERE hosted.state IN (1, 2) AND (? IS NULL OR FIND_IN_SET(hosted.partition_no, ?) > 0)
) AS here
    ON here.here_no = registry.partition_no
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = registry.partition_no AND moved.id = registry.id
JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = registry.partition_no AND task.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task.id = registry.id
WHERE lookup.term = ? AND lookup.id < ? AND lookup.id >= ?
    AND (? >> state) & 1 = 1
    AND (? IS NULL OR task.namespace = ?)
    AND (? IS NULL OR queue = ?)
    AND (? IS NULL OR kind = ?)
    AND (? IS NULL OR task.due_at >= ?)
    AND (? IS NULL OR task.due_at < ?)
    AND (? IS NULL OR INSTR(labels, ?) > 0)
    AND (? IS NULL OR LOCATE(CAST(? AS BINARY), CAST(last_error AS BINARY)) > 0)
    AND (? IS NULL OR created_at <= ?)
ORDER BY lookup.term DESC, lookup.id DESC LIMIT ?
