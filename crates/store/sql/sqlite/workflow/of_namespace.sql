-- Workflows of a namespace. ?1 namespace, ?2 limit.
SELECT id, definition_id FROM workflow WHERE namespace = ?1 LIMIT ?2
