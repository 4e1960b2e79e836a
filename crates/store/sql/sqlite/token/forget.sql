-- Forgets tokens that were revoked, or over, before. ?1 before (ms), ?2 how many at most.
DELETE FROM token WHERE id IN (SELECT id FROM token WHERE revoked_at < ?1 OR expires_at < ?1 ORDER BY id LIMIT ?2)
