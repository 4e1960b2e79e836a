-- A new operation. ?1 namespace, ?2 state, ?3 body (JSON), ?4 progress (JSON), ?5 now (ms), ?6 by whom, ?7 when there is something
-- to do (ms) or NULL.
INSERT INTO bulk (namespace, step, state, body, progress, wake_at, created_at, created_by, updated_at)
VALUES (?1, 1, ?2, ?3, ?4, ?7, ?5, ?6, ?5)
