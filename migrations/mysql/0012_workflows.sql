-- Workflows, their documents, and the rows of their nodes. The same tables in every database; used in the catalog only.
-- Instants are UTC epoch milliseconds. Each statement can be run again.

CREATE TABLE IF NOT EXISTS workflow_definition (
    id BIGINT NOT NULL AUTO_INCREMENT,
    namespace VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- Empty: the document has no name
    name VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    version BIGINT NOT NULL,
    -- Of the body: what is alike is stored once
    hash VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- JSON, see domain::workflow::Definition
    body LONGTEXT NOT NULL,
    created_at BIGINT NOT NULL,
    -- To the hour
    used_at BIGINT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY workflow_definition_body (namespace, name, hash)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
INSERT IGNORE INTO meta (name, value) VALUES ('workflow_versions', 0);

CREATE TABLE IF NOT EXISTS workflow (
    id BIGINT NOT NULL AUTO_INCREMENT,
    namespace VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- Of its document
    name VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    version BIGINT NOT NULL,
    definition_id BIGINT NOT NULL,
    -- What engines share
    slot INT NOT NULL,
    -- Of what is created twice, one is made
    dedup_key VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    -- Grows with every change
    step BIGINT NOT NULL,
    -- 1 running, 2 compensating, 3 succeeded, 4 failed, 5 compensated, 6 cancelled
    state INT NOT NULL,
    -- JSON, see contract::workflows::Progress
    progress MEDIUMTEXT NOT NULL,
    -- JSON
    input MEDIUMTEXT NOT NULL,
    -- When it is looked at again; NULL: it is over
    wake_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    finished_at BIGINT,
    created_by TEXT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY workflow_key (namespace, dedup_key),
    KEY workflow_wake (wake_at, slot),
    KEY workflow_listed (namespace, id),
    KEY workflow_by_name (namespace, name, id),
    KEY workflow_by_state (namespace, state, id),
    KEY workflow_finished (finished_at),
    KEY workflow_of_definition (definition_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Of a node, of an item of its fan-out, or of what undoes one. What has no row is blocked.
CREATE TABLE IF NOT EXISTS workflow_node (
    workflow_id BIGINT NOT NULL,
    -- Its number in the order of names
    node INT NOT NULL,
    -- -1: the node as a whole
    item INT NOT NULL,
    -- 0 what is to be done, 1 what undoes that
    role INT NOT NULL,
    -- 0 blocked, 1 open, 2 being skipped, 3 succeeded, 4 failed, 5 skipped, 6 skipped by hand, 7 cancelled
    state INT NOT NULL,
    attempt INT NOT NULL,
    -- Of those that have succeeded, which it was
    done_order BIGINT,
    -- How many items it has; NULL: it is no fan-out
    item_count INT,
    -- Of its task or its workflow; NULL: none is known to be made
    task_ref VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    begun_at BIGINT NOT NULL,
    ended_at BIGINT,
    -- JSON
    result MEDIUMTEXT,
    error TEXT,
    -- JSON, the array of a fan-out
    items MEDIUMTEXT,
    PRIMARY KEY (workflow_id, node, item, role)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
