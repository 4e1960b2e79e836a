-- Operations that have something to do, the longest ago first. ?1 slots (bits), ?2 now (ms), ?3 limit.
SELECT id, namespace, step, state, body, progress, wake_at, created_at, created_by, updated_at
FROM bulk WHERE wake_at <= ?2 AND (?1 >> (id % 32)) & 1 = 1 ORDER BY wake_at, id LIMIT ?3
