-- Moves a workflow on. In the catalog. 1 state, 2 progress (JSON), 3 wake_at (ms, NULL: never), 4 now (ms),
-- 5 now (ms) where it is over, 6 id, 7 step that stands.
UPDATE workflow SET step = step + 1, state = ?, progress = ?, wake_at = ?, updated_at = ?, finished_at = ? WHERE id = ? AND step = ?
