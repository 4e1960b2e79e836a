-- What tasks demand of their hand-over and what their handlers say; settings of queues; executors.
-- Instants are UTC epoch milliseconds.

-- JSON, NULL: none
ALTER TABLE task ADD COLUMN demands TEXT;
-- One JSON object a line, NULL: none
ALTER TABLE task ADD COLUMN log TEXT;

DROP VIEW whole_task;
-- A task in the order in which it is decoded.
CREATE VIEW whole_task AS SELECT
    task.id AS id, partition, namespace, task_id, task_version, queue, kind, priority, state, fence, attempt,
    max_attempts, execute_at, due_at, fired_at, created_at, updated_at, keep_until, place_due_at, timeout_ms,
    deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, demands,
    progress, log, result_code, result_msg, result_is_json, result_body, last_error, payload_is_json,
    coalesce(task.payload, body.payload) AS payload, history
FROM task LEFT JOIN body ON task.payload IS NULL AND body.id = task.id;

-- Settings of a queue, of a namespace (queue is ''), of everything (both are ''). What has none has the defaults.
CREATE TABLE setting (
    namespace TEXT NOT NULL,
    queue TEXT NOT NULL,
    -- Of the change that made it so: grows with every change of any setting.
    revision INTEGER NOT NULL,
    -- JSON, see domain::settings
    body TEXT NOT NULL,
    -- 1: a queue from which nothing starts
    paused INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL,
    PRIMARY KEY (namespace, queue)
) STRICT, WITHOUT ROWID;
-- Looked at by every hand-over: it has nothing but what is paused.
CREATE INDEX setting_paused ON setting (namespace, queue) WHERE paused = 1;

-- Every change of a setting: what it was set to (NULL: removed), when and by whom.
CREATE TABLE setting_change (
    revision INTEGER NOT NULL PRIMARY KEY,
    namespace TEXT NOT NULL,
    queue TEXT NOT NULL,
    body TEXT,
    changed_at INTEGER NOT NULL,
    changed_by TEXT NOT NULL
) STRICT;
CREATE INDEX setting_change_of ON setting_change (namespace, queue, revision);
INSERT INTO meta (key, value) VALUES ('settings_revision', 0);

-- Executors that gave a sign of life.
CREATE TABLE executor (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    -- JSON: version, capacity, what it runs, see domain::executor
    body TEXT NOT NULL,
    -- What its operator wishes: 0 serve, 1 quiet, 2 drain
    wish INTEGER NOT NULL,
    -- 0 not, 1 found dead, 2 left in order: kept for a while, so that an older sign of life does not bring it back
    gone INTEGER NOT NULL,
    first_seen_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    alive_until INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX executor_alive ON executor (alive_until);
