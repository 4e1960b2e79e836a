-- Forgets the documents of a namespace. In the catalog. 1 namespace, 2 limit.
DELETE FROM workflow_definition WHERE namespace = ? LIMIT ?
