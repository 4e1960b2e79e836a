-- Schedules and the history of their runs. The same tables in every database; used in the catalog only. Instants are UTC
-- epoch milliseconds. Each statement can be run again.

CREATE TABLE IF NOT EXISTS schedule (
    id BIGINT NOT NULL AUTO_INCREMENT,
    namespace VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    name VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- Of the names: what engines share
    slot INT NOT NULL,
    -- Of the last change of the document: grows with every change of any schedule.
    revision BIGINT NOT NULL,
    -- Grows with every change, of the document or of the progress.
    step BIGINT NOT NULL,
    -- JSON, see domain::schedule
    body MEDIUMTEXT NOT NULL,
    -- JSON, see domain::schedule::Progress
    progress MEDIUMTEXT NOT NULL,
    -- When there is something to do; NULL: not before it is changed
    wake_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    updated_by TEXT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY schedule_named (namespace, name),
    KEY schedule_wake (wake_at, slot)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
INSERT IGNORE INTO meta (name, value) VALUES ('schedules_revision', 0);

-- What became of each instant.
CREATE TABLE IF NOT EXISTS schedule_run (
    schedule_id BIGINT NOT NULL,
    at BIGINT NOT NULL,
    -- 0 planned, 1 asked for, 2 of a backfill
    kind INT NOT NULL,
    -- Of the document: the version of its task
    revision BIGINT NOT NULL,
    -- 1 created, 2 skipped, 3 buffered, 4 missed, 5 cancelled
    outcome INT NOT NULL,
    execute_at BIGINT NOT NULL,
    run_number BIGINT NOT NULL,
    reason TEXT,
    task_ref VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    -- Created, and its task not made yet, since then; NULL: settled
    unsettled_at BIGINT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (schedule_id, at, kind, revision, outcome),
    KEY schedule_run_unsettled (unsettled_at),
    KEY schedule_run_created (created_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
