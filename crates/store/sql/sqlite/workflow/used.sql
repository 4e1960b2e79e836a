-- A document is used. ?1 now (ms), ?2 id.
UPDATE workflow_definition SET used_at = ?1 WHERE id = ?2
