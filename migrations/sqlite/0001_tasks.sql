-- Tasks, the running account of them, and answers kept under idempotency keys.
-- Instants are UTC epoch milliseconds. State codes: domain::state::State.

-- What this file is made of and how far its counters stand: partitions, accepted, deleted, last_id.
CREATE TABLE meta (key TEXT NOT NULL PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO meta (key, value) VALUES ('accepted', 0), ('deleted', 0), ('last_id', 0);

-- Ids ascend and are never used again, so that inserts append. Three columns say by being NULL or not which
-- index a row is in, so that a move between two waiting states touches no index; the checks hold them to the state.
CREATE TABLE task (
    id INTEGER NOT NULL PRIMARY KEY,
    partition INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    task_id INTEGER NOT NULL,
    task_version INTEGER NOT NULL,
    queue TEXT NOT NULL,
    kind TEXT NOT NULL,
    priority INTEGER NOT NULL,
    state INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    execute_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    -- due_at while the engine still owes a firing or a hand-over
    wait_at INTEGER,
    fired_at INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    -- while finished
    keep_until INTEGER,
    -- due_at as it was in the reference that was handed out at insert
    place_due_at INTEGER NOT NULL,
    timeout_ms INTEGER,
    deadline_ms INTEGER,
    lease_executor TEXT,
    lease_since INTEGER,
    -- while in flight
    lease_until INTEGER,
    cancel_requested INTEGER NOT NULL,
    -- JSON; NULL: the default policy
    retry TEXT,
    -- JSON object of strings; NULL: none
    labels TEXT,
    traceparent TEXT,
    progress TEXT,
    result_code INTEGER,
    result_msg TEXT,
    result_is_json INTEGER,
    result_body BLOB,
    last_error TEXT,
    payload_is_json INTEGER NOT NULL,
    -- NULL: too long to be rewritten at every move, so it is in `body`
    payload BLOB,
    -- lines of domain::history
    history TEXT NOT NULL,
    -- Chains, not IN lists: SQLite builds a table for a list at every check, 3 us each.
    CONSTRAINT waits CHECK ((wait_at IS NOT NULL) = (state = 1 OR state = 2 OR state = 3 OR state = 6 OR state = 7)),
    CONSTRAINT flies CHECK ((lease_until IS NOT NULL) = (state = 4 OR state = 5)),
    CONSTRAINT rests CHECK ((keep_until IS NOT NULL) = (state = 8 OR state = 9 OR state = 10 OR state = 11))
) STRICT;

CREATE UNIQUE INDEX task_of_caller ON task (namespace, task_id, task_version);
-- Without the id, which every index ends with anyway: named, it would not be seeked by.
CREATE INDEX task_waiting ON task (partition, wait_at) WHERE wait_at IS NOT NULL;
CREATE INDEX task_in_flight ON task (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX task_finished ON task (keep_until) WHERE keep_until IS NOT NULL;

-- Long payloads, by task id.
CREATE TABLE body (id INTEGER NOT NULL PRIMARY KEY, payload BLOB NOT NULL) STRICT;

CREATE TABLE books (
    namespace TEXT NOT NULL,
    queue TEXT NOT NULL,
    state INTEGER NOT NULL,
    tasks INTEGER NOT NULL,
    PRIMARY KEY (namespace, queue, state)
) STRICT, WITHOUT ROWID;

CREATE TABLE reply (
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    request_hash INTEGER NOT NULL,
    status INTEGER NOT NULL,
    body BLOB NOT NULL,
    keep_until INTEGER NOT NULL,
    PRIMARY KEY (namespace, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX reply_kept ON reply (keep_until);

-- A task in the order in which it is decoded.
CREATE VIEW whole_task AS SELECT
    task.id AS id, partition, namespace, task_id, task_version, queue, kind, priority, state, fence, attempt,
    max_attempts, execute_at, due_at, fired_at, created_at, updated_at, keep_until, place_due_at, timeout_ms,
    deadline_ms, lease_executor, lease_since, lease_until, cancel_requested, retry, labels, traceparent, progress,
    result_code, result_msg, result_is_json, result_body, last_error, payload_is_json,
    coalesce(task.payload, body.payload) AS payload, history
FROM task LEFT JOIN body ON task.payload IS NULL AND body.id = task.id;
