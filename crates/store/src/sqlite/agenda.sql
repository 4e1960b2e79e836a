-- What the file has for the services of an engine.

-- name: read
-- Reads revisions, the earliest instants (ms) at which there is work (NULL: none), and whether labels or chunks are left
-- to enter (1 or 0). Each is the first entry of an index.
SELECT
    (SELECT value FROM meta WHERE key = 'settings_revision'),
    (SELECT value FROM meta WHERE key = 'access_revision'),
    (SELECT wake_at FROM schedule WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1),
    (SELECT wake_at FROM workflow WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1),
    (SELECT min(marked_at) FROM workflow_mark),
    (SELECT wake_at FROM bulk WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1),
    (SELECT lease_until FROM task WHERE lease_until IS NOT NULL ORDER BY lease_until LIMIT 1),
    (SELECT value FROM meta WHERE key = 'chunks_below') > 0
        OR EXISTS (SELECT 1 FROM indexed_label WHERE below_id IS NOT NULL)
