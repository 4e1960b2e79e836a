-- A new workflow; nothing, if its key is taken. In the catalog.
-- 1 namespace, 2 name (empty: none), 3 version, 4 document, 5 slot, 6 key (NULL: none), 7 progress (JSON), 8 input (JSON),
-- 9 wake_at (ms), 10 now (ms), 11 now (ms), 12 by whom.
INSERT IGNORE INTO workflow
    (namespace, name, version, definition_id, slot, dedup_key, step, state, progress, input, wake_at, created_at, updated_at, created_by)
VALUES (?, ?, ?, ?, ?, ?, 1, 1, ?, ?, ?, ?, ?, ?)
