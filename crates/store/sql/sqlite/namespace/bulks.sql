-- Forgets the bulk operations of a namespace of which no failures are left. ?1 namespace, ?2 limit.
DELETE FROM bulk WHERE id IN (
    SELECT id FROM bulk AS own
    WHERE namespace = ?1 AND NOT EXISTS (SELECT 1 FROM bulk_failure WHERE bulk_id = own.id) LIMIT ?2
)
