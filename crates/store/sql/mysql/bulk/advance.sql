-- Moves an operation on. In the catalog. 1 state, 2 progress (JSON), 3 wake_at (ms, NULL: never), 4 now (ms), 5 id,
-- 6 step that stands.
UPDATE bulk SET step = step + 1, state = ?, progress = ?, wake_at = ?, updated_at = ? WHERE id = ? AND step = ?
