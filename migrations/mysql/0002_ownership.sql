-- Who works on which partition, and what the dropping of a bucket has left to do. The same tables in every database;
-- engine and owner are used in the catalog only. Instants are UTC epoch milliseconds on this database's clock.
-- Each statement can be run again: until all of them have run, no bucket has been dropped.

-- Signs of life of engines. One that has left has no row.
CREATE TABLE IF NOT EXISTS engine (
    name VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    alive_until BIGINT NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB;

-- One row a partition that was ever asked for. The term grows with every new lease and never shrinks, so no row is
-- ever deleted. Term 0: nobody had it yet.
CREATE TABLE IF NOT EXISTS owner (
    partition_no INT NOT NULL,
    engine VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    term BIGINT NOT NULL,
    held_until BIGINT NOT NULL,
    PRIMARY KEY (partition_no)
) ENGINE = InnoDB;

-- The rows of the bucket that is being dropped: EXCHANGE PARTITION puts them here, all at once. Otherwise empty.
-- The same columns as task at all times: a migration that alters task alters this too, and not by ALGORITHM=INSTANT.
DROP TABLE IF EXISTS task_gone;
CREATE TABLE task_gone LIKE task;
ALTER TABLE task_gone REMOVE PARTITIONING;

-- Up to which row (inclusive, in the order of the key) of task_gone the account, registry, moved and body are settled.
CREATE TABLE IF NOT EXISTS gone_to (
    one TINYINT NOT NULL,
    partition_no INT NOT NULL,
    due_at BIGINT NOT NULL,
    id BIGINT NOT NULL,
    PRIMARY KEY (one)
) ENGINE = InnoDB;
INSERT IGNORE INTO gone_to (one, partition_no, due_at, id) VALUES (1, -1, 0, 0);
