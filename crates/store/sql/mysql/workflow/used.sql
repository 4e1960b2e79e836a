-- A document is used. In the catalog. 1 now (ms), 2 id.
UPDATE workflow_definition SET used_at = ? WHERE id = ?
