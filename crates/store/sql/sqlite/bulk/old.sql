-- Operations that have not changed for long and are not at work (states 1, 4 and 5). ?1 before (ms), ?2 limit.
SELECT id FROM bulk WHERE updated_at < ?1 AND state IN (1, 4, 5) ORDER BY updated_at LIMIT ?2
