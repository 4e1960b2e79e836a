-- Bulk operations and what failed of them. Instants are UTC epoch milliseconds.

CREATE TABLE bulk (
    -- Never used again
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    namespace TEXT NOT NULL,
    -- Grows with every change.
    step INTEGER NOT NULL,
    -- domain::bulk::BulkState
    state INTEGER NOT NULL,
    -- JSON, see domain::bulk
    body TEXT NOT NULL,
    -- JSON, see domain::bulk::Progress
    progress TEXT NOT NULL,
    -- When there is something to do; NULL: not before it is changed
    wake_at INTEGER,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX bulk_of ON bulk (namespace);
CREATE INDEX bulk_wake ON bulk (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX bulk_updated ON bulk (updated_at);

CREATE TABLE bulk_failure (
    bulk_id INTEGER NOT NULL,
    -- Of the task
    id INTEGER NOT NULL,
    task_ref TEXT NOT NULL,
    failed_at INTEGER NOT NULL,
    error TEXT NOT NULL,
    PRIMARY KEY (bulk_id, id)
) STRICT, WITHOUT ROWID;
