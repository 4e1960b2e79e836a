-- The document that is like one. In the catalog. 1 namespace, 2 name (empty: none), 3 hash.
SELECT id, version, used_at FROM workflow_definition WHERE namespace = ? AND name = ? AND hash = ?
