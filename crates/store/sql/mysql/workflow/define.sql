-- A new document. In the catalog. 1 namespace, 2 name (empty: none), 3 version, 4 hash, 5 body (JSON), 6 now (ms), 7 now (ms).
INSERT IGNORE INTO workflow_definition (namespace, name, version, hash, body, created_at, used_at) VALUES (?, ?, ?, ?, ?, ?, ?)
