-- What a database has for the services of an engine.

-- name: read
-- Reads revisions, the earliest instants (ms) at which there is work (NULL: none), and whether labels or chunks are left
-- to enter (1 or 0). Each is the first entry of an index. All but the last two are of the catalog; in another database
-- those tables are empty.
SELECT
    CAST(COALESCE((SELECT value FROM meta WHERE name = 'settings_revision'), 0) AS SIGNED),
    CAST(COALESCE((SELECT value FROM meta WHERE name = 'access_revision'), 0) AS SIGNED),
    (SELECT MIN(wake_at) FROM schedule),
    (SELECT MIN(wake_at) FROM workflow),
    (SELECT MIN(marked_at) FROM workflow_mark),
    (SELECT MIN(wake_at) FROM bulk),
    (SELECT MIN(lease_until) FROM lease_batch),
    CAST(
        COALESCE((SELECT value FROM meta WHERE name = 'chunks_below'), 1) <> 0
        OR EXISTS (SELECT 1 FROM indexed_label WHERE below_id IS NOT NULL)
    AS SIGNED)
