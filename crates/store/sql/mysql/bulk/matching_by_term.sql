-- As matching.sql, among the tasks that are entered under a term, inside a range of ids that bounds the work.
-- 1 whether labels are wanted, 2 term, 3 below this id, 4 down to this id, 5 the states (bits); each other condition holds only
-- if it is not NULL, and is given twice: 6 and 7 namespace, 8 and 9 queue, 10 and 11 kind, 12 and 13 due from (ms), 14 and 15
-- due before (ms), 16 and 17 a label as it stands in the text of all labels, 18 and 19 a text in its last error, 20 and 21
-- made until (ms), 22 limit.
SELECT STRAIGHT_JOIN registry.partition_no, registry.due_at, registry.id, IF(?, labels, NULL)
FROM lookup FORCE INDEX (PRIMARY)
JOIN registry FORCE INDEX (registry_newest) ON registry.id = lookup.id AND registry.partition_no = lookup.partition_no
JOIN (SELECT hosted.partition_no AS here_no FROM hosted FORCE INDEX (PRIMARY) WHERE hosted.state IN (1, 2)) AS here
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
