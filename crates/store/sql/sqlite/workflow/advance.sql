-- Moves a workflow on. ?1 id, ?2 step that stands, ?3 state, ?4 progress (JSON), ?5 wake_at (ms, NULL: never), ?6 now (ms),
-- ?7 now (ms) where it is over.
UPDATE workflow SET step = step + 1, state = ?3, progress = ?4, wake_at = ?5, updated_at = ?6, finished_at = ?7 WHERE id = ?1 AND step = ?2
