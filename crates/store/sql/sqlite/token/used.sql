-- When a token was used; an older time changes nothing. ?1 id, ?2 at (ms).
UPDATE token SET used_at = ?2 WHERE id = ?1 AND (used_at IS NULL OR used_at < ?2)
