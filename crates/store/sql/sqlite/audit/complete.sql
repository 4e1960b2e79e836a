-- Completes an entry that has no result yet. ?1 id, ?2 status, ?3 at (ms), ?4 reason, ?5 before (JSON), ?6 after (JSON).
UPDATE audit SET status = ?2, completed_at = ?3, reason = ?4, before_json = ?5, after_json = ?6
WHERE id = ?1 AND status IS NULL
