-- Forgets the documents of a namespace. ?1 namespace, ?2 limit.
DELETE FROM workflow_definition WHERE id IN (SELECT id FROM workflow_definition WHERE namespace = ?1 LIMIT ?2)
