-- Bulk operations and what failed of them. The same tables in every database; used in the catalog only. Instants are UTC
-- epoch milliseconds. Each statement can be run again.

CREATE TABLE IF NOT EXISTS bulk (
    id BIGINT NOT NULL AUTO_INCREMENT,
    namespace VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- Grows with every change.
    step BIGINT NOT NULL,
    -- domain::bulk::BulkState
    state INT NOT NULL,
    -- JSON, see domain::bulk
    body MEDIUMTEXT NOT NULL,
    -- JSON, see domain::bulk::Progress
    progress MEDIUMTEXT NOT NULL,
    -- When there is something to do; NULL: not before it is changed
    wake_at BIGINT,
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (id),
    KEY bulk_of (namespace, id),
    KEY bulk_wake (wake_at),
    KEY bulk_updated (updated_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS bulk_failure (
    bulk_id BIGINT NOT NULL,
    -- Of the task
    id BIGINT NOT NULL,
    task_ref VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    failed_at BIGINT NOT NULL,
    error TEXT NOT NULL,
    PRIMARY KEY (bulk_id, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
