-- Forgets a document without a name that nothing uses. ?1 used before this (ms), ?2 id.
DELETE FROM workflow_definition WHERE name = '' AND used_at < ?1 AND id = ?2
    AND NOT EXISTS (SELECT 1 FROM workflow WHERE workflow.definition_id = workflow_definition.id)
