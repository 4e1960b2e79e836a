-- Moves a schedule on. ?1 id, ?2 step that stands, ?3 progress (JSON), ?4 wake_at (ms, NULL: never).
UPDATE schedule SET step = step + 1, progress = ?3, wake_at = ?4 WHERE id = ?1 AND step = ?2
