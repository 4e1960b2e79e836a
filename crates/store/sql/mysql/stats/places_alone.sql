-- Moved places, of one partition, of tasks that the registry does not know.
-- Parameters: partition.
SELECT COUNT(*) FROM moved
LEFT JOIN registry ON registry.id = moved.id
WHERE moved.partition_no = ? AND registry.id IS NULL
