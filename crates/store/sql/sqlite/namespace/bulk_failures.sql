-- Forgets what failed of the bulk operations of a namespace. ?1 namespace, ?2 limit.
DELETE FROM bulk_failure WHERE (bulk_id, id) IN (
    SELECT bulk_failure.bulk_id, bulk_failure.id FROM bulk JOIN bulk_failure ON bulk_failure.bulk_id = bulk.id
    WHERE bulk.namespace = ?1 LIMIT ?2
)
