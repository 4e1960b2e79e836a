-- The version that comes next. In the catalog. 1 namespace, 2 name (empty: none).
SELECT COALESCE(MAX(version), 0) + 1 FROM workflow_definition WHERE namespace = ? AND name = ?
