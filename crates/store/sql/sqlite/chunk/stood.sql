-- The chunks (id / 1024) of tasks that stood before they were entered. ?1 from this id, ?2 to this id (inclusive).
INSERT OR IGNORE INTO task_chunk (namespace, queue, chunk, kind)
SELECT namespace, queue, id / 1024, kind FROM task WHERE id BETWEEN ?1 AND ?2
UNION ALL SELECT namespace, '', id / 1024, '' FROM task WHERE id BETWEEN ?1 AND ?2
