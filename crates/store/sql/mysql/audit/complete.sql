-- Completes an entry that has no result yet. 1 status, 2 at (ms), 3 reason, 4 before (JSON), 5 after (JSON), 6 id.
UPDATE audit SET status = ?, completed_at = ?, reason = ?, before_json = ?, after_json = ?
WHERE id = ? AND status IS NULL
