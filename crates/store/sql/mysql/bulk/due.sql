-- Operations that have something to do, the longest ago first. In the catalog. 1 now (ms), 2 slots (bits), 3 limit.
SELECT id, namespace, step, state, body, progress, wake_at, created_at, created_by, updated_at
FROM bulk FORCE INDEX (bulk_wake) WHERE wake_at <= ? AND (? >> (id % 32)) & 1 = 1 ORDER BY wake_at, id LIMIT ?
