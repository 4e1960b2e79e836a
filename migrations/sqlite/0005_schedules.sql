-- Schedules and the history of their runs. Instants are UTC epoch milliseconds.

CREATE TABLE schedule (
    -- Never used again
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    -- Of the names: what engines share
    slot INTEGER NOT NULL,
    -- Of the last change of the document: grows with every change of any schedule.
    revision INTEGER NOT NULL,
    -- Grows with every change, of the document or of the progress.
    step INTEGER NOT NULL,
    -- JSON, see domain::schedule
    body TEXT NOT NULL,
    -- JSON, see domain::schedule::Progress
    progress TEXT NOT NULL,
    -- When there is something to do; NULL: not before it is changed
    wake_at INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX schedule_named ON schedule (namespace, name);
CREATE INDEX schedule_wake ON schedule (wake_at, slot) WHERE wake_at IS NOT NULL;
INSERT INTO meta (key, value) VALUES ('schedules_revision', 0);

-- What became of each instant.
CREATE TABLE schedule_run (
    schedule_id INTEGER NOT NULL,
    at INTEGER NOT NULL,
    -- 0 planned, 1 asked for, 2 of a backfill
    kind INTEGER NOT NULL,
    -- Of the document: the version of its task
    revision INTEGER NOT NULL,
    -- 1 created, 2 skipped, 3 buffered, 4 missed, 5 cancelled
    outcome INTEGER NOT NULL,
    execute_at INTEGER NOT NULL,
    run_number INTEGER NOT NULL,
    reason TEXT,
    task_ref TEXT,
    -- Created, and its task not made yet, since then; NULL: settled
    unsettled_at INTEGER,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (schedule_id, at, kind, revision, outcome)
) STRICT, WITHOUT ROWID;
CREATE INDEX schedule_run_unsettled ON schedule_run (unsettled_at) WHERE unsettled_at IS NOT NULL;
CREATE INDEX schedule_run_created ON schedule_run (created_at);
