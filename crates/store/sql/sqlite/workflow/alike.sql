-- The document that is like one. ?1 namespace, ?2 name (empty: none), ?3 hash.
SELECT id, version, used_at FROM workflow_definition WHERE namespace = ?1 AND name = ?2 AND hash = ?3
