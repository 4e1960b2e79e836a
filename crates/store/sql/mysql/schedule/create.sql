-- A new schedule; nothing, if the name is taken. In the catalog.
-- 1 namespace, 2 name, 3 slot, 4 revision, 5 body (JSON), 6 progress (JSON), 7 wake_at (ms, NULL: never), 8 now (ms),
-- 9 now (ms), 10 by whom.
INSERT IGNORE INTO schedule
    (namespace, name, slot, revision, step, body, progress, wake_at, created_at, updated_at, updated_by)
VALUES (?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?)
