-- Schedules that have something to do, the longest ago first. ?1 slots (bits), ?2 now (ms), ?3 limit.
SELECT id, namespace, name, revision, step, body, progress, wake_at, created_at, updated_at, updated_by
FROM schedule WHERE wake_at IS NOT NULL AND wake_at <= ?2 AND (?1 >> slot) & 1 = 1 ORDER BY wake_at, slot LIMIT ?3
