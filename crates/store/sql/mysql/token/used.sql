-- When a token was used; an older time changes nothing. 1 at (ms), 2 id, 3 at (ms).
UPDATE token SET used_at = ? WHERE id = ? AND (used_at IS NULL OR used_at < ?)
