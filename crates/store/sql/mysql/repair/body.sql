-- A page of body of one partition, in order; 1 where the registry does not know the task.
-- Parameters: partition, after this id, limit.
SELECT some.id, CAST(registry.id IS NULL AS SIGNED)
FROM (SELECT partition_no, id FROM body WHERE partition_no = ? AND id > ? ORDER BY id LIMIT ?) AS some
LEFT JOIN registry FORCE INDEX (registry_newest) ON registry.id = some.id AND registry.partition_no = some.partition_no
ORDER BY some.id
