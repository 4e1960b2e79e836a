-- Forgets a document without a name that nothing uses. In the catalog. 1 used before this (ms), 2 id.
DELETE FROM workflow_definition WHERE name = '' AND used_at < ? AND id = ? AND NOT EXISTS (SELECT 1 FROM workflow WHERE workflow.definition_id = workflow_definition.id)
