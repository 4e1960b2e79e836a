-- Workflows of a namespace. In the catalog. 1 namespace, 2 limit.
SELECT id, definition_id FROM workflow WHERE namespace = ? LIMIT ?
