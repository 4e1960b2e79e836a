-- Forgets a workflow. In the catalog. 1 id.
DELETE FROM workflow WHERE id = ?
