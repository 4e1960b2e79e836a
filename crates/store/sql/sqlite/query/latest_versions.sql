-- The highest version of each of a few ids of callers. ?1 namespace, ?2 ids (JSON: [task_id, ...]).
SELECT whole_task.* FROM json_each(?2) AS wanted
CROSS JOIN whole_task ON whole_task.namespace = ?1 AND whole_task.task_id = wanted.value
WHERE NOT EXISTS (
    SELECT 1 FROM task AS newer
    WHERE newer.namespace = ?1 AND newer.task_id = wanted.value AND newer.task_version > whole_task.task_version
)
