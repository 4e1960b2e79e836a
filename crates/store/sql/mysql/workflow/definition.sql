-- One document. In the catalog. 1 id.
SELECT id, namespace, body, version FROM workflow_definition WHERE id = ?
