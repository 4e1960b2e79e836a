-- A new operation. In the catalog. 1 namespace, 2 state, 3 body (JSON), 4 progress (JSON), 5 when there is something to do (ms) or
-- NULL, 6 now (ms), 7 by whom, 8 now (ms).
INSERT INTO bulk (namespace, step, state, body, progress, wake_at, created_at, created_by, updated_at)
VALUES (?, 1, ?, ?, ?, ?, ?, ?, ?)
