-- Tasks, the running account of them, and answers kept under idempotency keys: the same tables in every database.
-- Instants are UTC epoch milliseconds. State codes: domain::state::State. All numbers are signed, because the
-- driver does not decode others. Each statement can be run again, because MySQL commits each one by itself.

-- What this database is made of and how far its counters stand. In every database: cluster (a random number that all
-- databases of one store share), shard (its number, from 0). In the first, the catalog, also: partitions, last_id.
CREATE TABLE IF NOT EXISTS meta (
    name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    value BIGINT NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB;

-- Which database has a partition. Read in the catalog only.
CREATE TABLE IF NOT EXISTS placement (
    partition_no INT NOT NULL,
    shard_no INT NOT NULL,
    PRIMARY KEY (partition_no)
) ENGINE = InnoDB;

-- Clustered by place, and by nothing else: a secondary index would cost every insert and every move, and what is due
-- together stands together. due_at is where the row stands now, so a move to another time is a move in the key.
-- The buckets are split off from pmax ahead of time by maintenance, and dropped whole when all in them is over.
-- Texts that no statement looks for are utf8mb4_bin, names are ascii.
CREATE TABLE IF NOT EXISTS task (
    partition_no INT NOT NULL,
    due_at BIGINT NOT NULL,
    id BIGINT NOT NULL,
    namespace VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    task_id BIGINT NOT NULL,
    task_version BIGINT NOT NULL,
    queue VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    kind VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    priority TINYINT NOT NULL,
    state TINYINT NOT NULL,
    fence BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    max_attempts BIGINT NOT NULL,
    execute_at BIGINT NOT NULL,
    fired_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    -- while finished
    keep_until BIGINT,
    -- due_at as it was in the reference that was handed out at insert
    place_due_at BIGINT NOT NULL,
    timeout_ms BIGINT,
    deadline_ms BIGINT,
    lease_executor TEXT,
    lease_since BIGINT,
    -- while in flight
    lease_until BIGINT,
    cancel_requested TINYINT NOT NULL,
    -- JSON, NULL: the default policy
    retry MEDIUMTEXT,
    -- JSON object of strings, NULL: none
    labels MEDIUMTEXT,
    traceparent TEXT,
    progress MEDIUMTEXT,
    result_code BIGINT,
    result_msg MEDIUMTEXT,
    result_is_json TINYINT,
    result_body LONGBLOB,
    last_error TEXT,
    payload_is_json TINYINT NOT NULL,
    -- NULL: too long to be rewritten at every move, so it is in `body`
    payload BLOB,
    -- lines of domain::history
    history MEDIUMTEXT NOT NULL,
    PRIMARY KEY (partition_no, due_at, id),
    CONSTRAINT flies CHECK ((lease_until IS NOT NULL) = (state IN (4, 5))),
    CONSTRAINT rests CHECK ((keep_until IS NOT NULL) = (state IN (8, 9, 10, 11)))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
PARTITION BY RANGE (due_at) (PARTITION pmax VALUES LESS THAN MAXVALUE);

-- From a caller's id to the reference that was handed out: one row a task, made and deleted with it.
CREATE TABLE IF NOT EXISTS registry (
    partition_no INT NOT NULL,
    namespace VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    task_id BIGINT NOT NULL,
    task_version BIGINT NOT NULL,
    id BIGINT NOT NULL,
    -- task.place_due_at
    due_at BIGINT NOT NULL,
    PRIMARY KEY (partition_no, namespace, task_id, task_version),
    -- A search goes from the newest id down. Ids ascend, so inserts append here.
    KEY registry_newest (id)
) ENGINE = InnoDB;

-- Where a task stands that is no longer where its reference says (task.due_at <> task.place_due_at): after a retry,
-- a snooze, a reschedule, a redrive, a replacement. May be left over when the task is back at its old place.
CREATE TABLE IF NOT EXISTS moved (
    partition_no INT NOT NULL,
    id BIGINT NOT NULL,
    -- task.due_at
    due_at BIGINT NOT NULL,
    PRIMARY KEY (partition_no, id)
) ENGINE = InnoDB;

-- Long payloads, by task.
CREATE TABLE IF NOT EXISTS body (
    partition_no INT NOT NULL,
    id BIGINT NOT NULL,
    payload LONGBLOB NOT NULL,
    PRIMARY KEY (partition_no, id)
) ENGINE = InnoDB;

-- Leases by their end, many in a row, so that `task` needs no index for them. An entry is only a hint where to look:
-- the task's row decides. Entries are places and fences of tasks, see mysql/ended.rs.
CREATE TABLE IF NOT EXISTS lease_batch (
    batch_id BIGINT NOT NULL AUTO_INCREMENT,
    -- the earliest end in the batch, as it was when the batch was written
    lease_until BIGINT NOT NULL,
    entries MEDIUMBLOB NOT NULL,
    PRIMARY KEY (batch_id),
    KEY lease_batch_until (lease_until)
) ENGINE = InnoDB;

-- The running account. A slot belongs to one writing connection, so that transactions never wait for each other here:
-- the account is the sum over the slots, and a single row may be negative.
CREATE TABLE IF NOT EXISTS books (
    slot INT NOT NULL,
    namespace VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    queue VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    state TINYINT NOT NULL,
    tasks BIGINT NOT NULL,
    PRIMARY KEY (slot, namespace, queue, state)
) ENGINE = InnoDB;

-- Counters by slot, as `books`: accepted, deleted.
CREATE TABLE IF NOT EXISTS counters (
    slot INT NOT NULL,
    name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    value BIGINT NOT NULL,
    PRIMARY KEY (slot, name)
) ENGINE = InnoDB;

-- Answers under idempotency keys. The key is bytes, because texts compare equal with and without spaces at their end.
CREATE TABLE IF NOT EXISTS reply (
    namespace VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    reply_key VARBINARY(1024) NOT NULL,
    request_hash BIGINT NOT NULL,
    status INT NOT NULL,
    body LONGBLOB NOT NULL,
    keep_until BIGINT NOT NULL,
    PRIMARY KEY (namespace, reply_key),
    KEY reply_kept (keep_until)
) ENGINE = InnoDB;
