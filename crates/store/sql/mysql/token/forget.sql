-- Forgets tokens that were revoked, or over, before. In the catalog. 1 before (ms), 2 before (ms), 3 how many at most.
DELETE FROM token WHERE revoked_at < ? OR expires_at < ? ORDER BY id LIMIT ?
