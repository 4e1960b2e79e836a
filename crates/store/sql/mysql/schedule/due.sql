-- Schedules that have something to do, the longest ago first. In the catalog. 1 now (ms), 2 slots (bits), 3 limit.
SELECT id, namespace, name, revision, step, body, progress, wake_at, created_at, updated_at, updated_by
FROM schedule FORCE INDEX (schedule_wake) WHERE wake_at <= ? AND (? >> slot) & 1 = 1 ORDER BY wake_at, slot LIMIT ?
