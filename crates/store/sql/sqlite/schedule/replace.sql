-- Another document. ?1 namespace, ?2 name, ?3 step that stands, ?4 revision, ?5 body (JSON), ?6 progress (JSON),
-- ?7 wake_at (ms, NULL: never), ?8 now (ms), ?9 by whom.
UPDATE schedule SET revision = ?4, step = step + 1, body = ?5, progress = ?6, wake_at = ?7, updated_at = ?8, updated_by = ?9
WHERE namespace = ?1 AND name = ?2 AND step = ?3
