-- Forgets the bulk operations of a namespace of which no failures are left. 1 namespace, 2 limit.
DELETE FROM bulk WHERE namespace = ? AND NOT EXISTS (SELECT 1 FROM bulk_failure WHERE bulk_failure.bulk_id = bulk.id)
ORDER BY namespace, id LIMIT ?
