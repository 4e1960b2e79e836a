-- Workflows, their documents, and the rows of their nodes. Instants are UTC epoch milliseconds.

CREATE TABLE workflow_definition (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    namespace TEXT NOT NULL,
    -- Empty: the document has no name
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    -- Of the body: what is alike is stored once
    hash TEXT NOT NULL,
    -- JSON, see domain::workflow::Definition
    body TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    -- To the hour
    used_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX workflow_definition_body ON workflow_definition (namespace, name, hash);

CREATE TABLE workflow (
    -- Never used again
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    namespace TEXT NOT NULL,
    -- Of its document
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    definition_id INTEGER NOT NULL,
    -- What engines share
    slot INTEGER NOT NULL,
    -- Of what is created twice, one is made
    dedup_key TEXT,
    -- Grows with every change
    step INTEGER NOT NULL,
    -- 1 running, 2 compensating, 3 succeeded, 4 failed, 5 compensated, 6 cancelled
    state INTEGER NOT NULL,
    -- JSON, see contract::workflows::Progress
    progress TEXT NOT NULL,
    -- JSON
    input TEXT NOT NULL,
    -- When it is looked at again; NULL: it is over
    wake_at INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    finished_at INTEGER,
    created_by TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX workflow_key ON workflow (namespace, dedup_key) WHERE dedup_key IS NOT NULL;
CREATE INDEX workflow_wake ON workflow (wake_at, slot) WHERE wake_at IS NOT NULL;
CREATE INDEX workflow_listed ON workflow (namespace, id);
CREATE INDEX workflow_by_name ON workflow (namespace, name, id);
CREATE INDEX workflow_by_state ON workflow (namespace, state, id);
CREATE INDEX workflow_finished ON workflow (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX workflow_of_definition ON workflow (definition_id);

-- Of a node, of an item of its fan-out, or of what undoes one. What has no row is blocked.
CREATE TABLE workflow_node (
    workflow_id INTEGER NOT NULL,
    -- Its number in the order of names
    node INTEGER NOT NULL,
    -- -1: the node as a whole
    item INTEGER NOT NULL,
    -- 0 what is to be done, 1 what undoes that
    role INTEGER NOT NULL,
    -- 0 blocked, 1 open, 2 being skipped, 3 succeeded, 4 failed, 5 skipped, 6 skipped by hand, 7 cancelled
    state INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    -- Of those that have succeeded, which it was
    done_order INTEGER,
    -- How many items it has; NULL: it is no fan-out
    item_count INTEGER,
    -- Of its task or its workflow; NULL: none is known to be made
    task_ref TEXT,
    begun_at INTEGER NOT NULL,
    ended_at INTEGER,
    -- JSON
    result TEXT,
    error TEXT,
    -- JSON, the array of a fan-out
    items TEXT,
    PRIMARY KEY (workflow_id, node, item, role)
) STRICT, WITHOUT ROWID;
