-- Forgets answers whose time is over. 1 now (ms), 2 limit.
DELETE FROM reply WHERE keep_until <= ? ORDER BY keep_until LIMIT ?
