-- As matching.sql, among the dead of a namespace.
-- ?1 below this id, ?2 down to this id, ?3 limit, ?4 the states (bits), ?5 namespace; each other condition holds only if it is
-- not NULL: ?6 queue, ?7 kind, ?8 due from (ms), ?9 due before (ms), ?10 label and ?11 its value, ?12 a text in its last error,
-- ?13 made until (ms), ?14 partitions (JSON).
SELECT partition, place_due_at, id FROM task
WHERE state = 9 AND namespace = ?5 AND id < ?1 AND id >= ?2
    AND (?4 >> state) & 1 = 1
    AND (?6 IS NULL OR queue = ?6)
    AND (?7 IS NULL OR kind = ?7)
    AND (?8 IS NULL OR due_at >= ?8)
    AND (?9 IS NULL OR due_at < ?9)
    AND (?10 IS NULL OR EXISTS (SELECT 1 FROM json_each(labels) AS it WHERE it.key = ?10 AND it.value = ?11))
    AND (?12 IS NULL OR instr(last_error, ?12) > 0)
    AND (?13 IS NULL OR created_at <= ?13)
    AND (?14 IS NULL OR partition IN (SELECT value FROM json_each(?14)))
ORDER BY id DESC LIMIT ?3
