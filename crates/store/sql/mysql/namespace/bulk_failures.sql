-- Forgets what failed of the bulk operations of a namespace. 1 namespace, 2 limit.
DELETE FROM bulk_failure WHERE bulk_id IN (SELECT bulk.id FROM bulk WHERE bulk.namespace = ?)
ORDER BY bulk_id, id LIMIT ?
