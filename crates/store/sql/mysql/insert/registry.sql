-- From a caller's id to the reference that is handed out. A row that is there already is an error, which begins the
-- transaction again: it decides between two engines that insert the same id at once.
-- For each row: 1 partition, 2 namespace, 3 task_id, 4 task_version, 5 id, 6 due_at (ms).
INSERT INTO registry (partition_no, namespace, task_id, task_version, id, due_at)
VALUES (?, ?, ?, ?, ?, ?)
