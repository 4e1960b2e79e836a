-- What tasks demand of their hand-over and what their handlers say; settings of queues; executors. The same tables in
-- every database; setting, setting_change and executor are used in the catalog only. Instants are UTC epoch milliseconds.
-- Each statement can be run again. MySQL 8 has no ADD COLUMN IF NOT EXISTS; FORCE, because rows that were altered by
-- ALGORITHM=INSTANT could not be exchanged with task_gone.

-- demands: JSON, NULL: none. log: one JSON object a line, NULL: none.
SET @alter_task = IF((
    SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'task' AND column_name = 'demands') = 0,
    'ALTER TABLE task ADD COLUMN demands TEXT, ADD COLUMN log MEDIUMTEXT, FORCE, ALGORITHM = INPLACE', 'DO 0');
PREPARE alter_task FROM @alter_task;
EXECUTE alter_task;
DEALLOCATE PREPARE alter_task;
SET @alter_task = IF((
    SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'task_gone' AND column_name = 'demands') = 0,
    'ALTER TABLE task_gone ADD COLUMN demands TEXT, ADD COLUMN log MEDIUMTEXT, FORCE, ALGORITHM = INPLACE', 'DO 0');
PREPARE alter_task FROM @alter_task;
EXECUTE alter_task;
DEALLOCATE PREPARE alter_task;

-- Settings of a queue, of a namespace (queue is ''), of everything (both are ''). What has none has the defaults.
CREATE TABLE IF NOT EXISTS setting (
    namespace VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    queue VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- Of the change that made it so: grows with every change of any setting.
    revision BIGINT NOT NULL,
    -- JSON, see domain::settings
    body MEDIUMTEXT NOT NULL,
    -- 1: a queue from which nothing starts
    paused TINYINT NOT NULL,
    updated_at BIGINT NOT NULL,
    updated_by TEXT NOT NULL,
    PRIMARY KEY (namespace, queue)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Every change of a setting: what it was set to (NULL: removed), when and by whom.
CREATE TABLE IF NOT EXISTS setting_change (
    revision BIGINT NOT NULL,
    namespace VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    queue VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    body MEDIUMTEXT,
    changed_at BIGINT NOT NULL,
    changed_by TEXT NOT NULL,
    PRIMARY KEY (revision),
    KEY setting_change_of (namespace, queue, revision)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
-- settings_revision: of the last change. pauses_revision: of the last one that paused or resumed a queue. Both in the
-- catalog. pause_epoch: the pauses_revision that this database holds to; every hand-over share-locks it.
INSERT IGNORE INTO meta (name, value) VALUES ('settings_revision', 0), ('pauses_revision', 0), ('pause_epoch', 0);

-- The paused queues as this database holds to them, as of its pause_epoch; in every database.
CREATE TABLE IF NOT EXISTS paused_queue (
    namespace VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    queue VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (namespace, queue)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Executors that gave a sign of life.
CREATE TABLE IF NOT EXISTS executor (
    namespace VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    name VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    -- JSON: version, capacity, what it runs, see domain::executor
    body MEDIUMTEXT NOT NULL,
    -- What its operator wishes: 0 serve, 1 quiet, 2 drain
    wish INT NOT NULL,
    -- 0 not, 1 found dead, 2 left in order: kept for a while, so that an older sign of life does not bring it back
    gone INT NOT NULL,
    first_seen_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    alive_until BIGINT NOT NULL,
    PRIMARY KEY (namespace, name),
    KEY executor_alive (alive_until)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
