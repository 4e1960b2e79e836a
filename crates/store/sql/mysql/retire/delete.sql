-- Forgets finished tasks with all that belongs to them. Never a success, which becomes stopped first.
-- 1 the rows (JSON: [partition, due_at (ms), id]), which are locked.
DELETE task, registry, moved, body, lookup
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at AND task.id = wanted.id
    AND task.state IN (9, 10, 11)
LEFT JOIN registry FORCE INDEX (PRIMARY) ON registry.partition_no = task.partition_no AND registry.namespace = task.namespace
    AND registry.task_id = task.task_id AND registry.task_version = task.task_version
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = task.partition_no AND moved.id = task.id
LEFT JOIN body FORCE INDEX (PRIMARY) ON body.partition_no = task.partition_no AND body.id = task.id
LEFT JOIN lookup FORCE INDEX (lookup_of) ON lookup.partition_no = task.partition_no AND lookup.id = task.id
