-- Enters tasks that stood before their label was declared. ?1 from this id, ?2 to this id (inclusive), ?3 namespace, ?4 queue,
-- ?5 label. By ids: the index of callers' ids begins with the namespace, and would be read from end to end.
INSERT OR IGNORE INTO task_label (namespace, label, id)
SELECT task.namespace, it.key || '=' || it.value, task.id
FROM task CROSS JOIN json_each(task.labels) AS it
WHERE task.id >= ?1 AND task.id <= ?2 AND +task.namespace = ?3 AND task.queue = ?4 AND task.labels IS NOT NULL AND it.key = ?5
