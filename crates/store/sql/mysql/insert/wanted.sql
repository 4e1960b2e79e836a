-- Which of the wanted ids of callers stand already, and in which versions that are not lower than the wanted one;
-- locked, so that nobody replaces or forgets them meanwhile.
-- 1 the wanted (JSON: [number, partition, task_id, task_version], in the order of the key), 2 namespace.
-- Answers the number, task_version, id, due_at of the reference (ms).
SELECT wanted.nth, registry.task_version, registry.id, registry.due_at
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', task_id BIGINT PATH '$[2]', task_version BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN registry FORCE INDEX (PRIMARY) ON registry.partition_no = wanted.partition_no AND registry.namespace = ?
    AND registry.task_id = wanted.task_id AND registry.task_version >= wanted.task_version
FOR UPDATE /*!80001 OF registry */
