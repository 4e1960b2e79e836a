-- Another document. In the catalog. 1 revision, 2 body (JSON), 3 progress (JSON), 4 wake_at (ms, NULL: never), 5 now (ms),
-- 6 by whom, 7 namespace, 8 name, 9 step that stands.
UPDATE schedule SET revision = ?, step = step + 1, body = ?, progress = ?, wake_at = ?, updated_at = ?, updated_by = ?
WHERE namespace = ? AND name = ? AND step = ?
