-- A new document, of the next version of its name.
-- ?1 namespace, ?2 name (empty: none), ?3 hash, ?4 body (JSON), ?5 now (ms).
INSERT INTO workflow_definition (namespace, name, version, hash, body, created_at, used_at)
SELECT ?1, ?2, COALESCE(MAX(version), 0) + 1, ?3, ?4, ?5, ?5 FROM workflow_definition WHERE namespace = ?1 AND name = ?2
