-- Partitions that change their database while tasks flow. The same tables in every database; partition_move and engine
-- are used in the catalog only. Instants are UTC epoch milliseconds on this database's clock.
-- Each statement can be run again.

-- Which partitions this database has. Whoever writes holds the rows of its partitions (shared) until it commits, and
-- writes only where state is 1: that keeps out an engine that knows an older placement, however long it slept.
CREATE TABLE IF NOT EXISTS hosted (
    partition_no INT NOT NULL,
    -- 1 open, 2 closed (here, and nobody writes: it is about to leave), 3 arriving (copies: not here yet),
    -- 4 left (what is there waits for its deletion)
    state TINYINT NOT NULL,
    -- Which run of a mover may change this row, and rows of a partition that is not here. 0: none ever did.
    term BIGINT NOT NULL,
    PRIMARY KEY (partition_no)
) ENGINE = InnoDB;

-- What a closed partition takes along: entered here and there before the move is decided, so that either side can
-- close its books by itself.
CREATE TABLE IF NOT EXISTS taken_along (
    partition_no INT NOT NULL,
    namespace VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    queue VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    state TINYINT NOT NULL,
    tasks BIGINT NOT NULL,
    PRIMARY KEY (partition_no, namespace, queue, state)
) ENGINE = InnoDB;

-- Moves that are not over.
CREATE TABLE IF NOT EXISTS partition_move (
    partition_no INT NOT NULL,
    from_shard INT NOT NULL,
    to_shard INT NOT NULL,
    -- 1 copying, 2 closing (the old place refuses writes, until closed_until), 3 decided (placement says the new place),
    -- 4 open at the new place, the old rows are being deleted, 5 being undone
    step TINYINT NOT NULL,
    -- Of the mover that is at it. From the counter move_term of meta: it never comes back.
    term BIGINT NOT NULL,
    -- When anybody may open the partition at its old place again.
    closed_until BIGINT NOT NULL,
    PRIMARY KEY (partition_no)
) ENGINE = InnoDB;

-- Signs of life of engines, as before, with how many databases each one names: 0 is an engine that cannot follow a
-- move. Every engine writes its row again with its next beat.
DROP TABLE IF EXISTS engine;
CREATE TABLE engine (
    name VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    alive_until BIGINT NOT NULL,
    names_databases INT NOT NULL DEFAULT 0,
    PRIMARY KEY (name)
) ENGINE = InnoDB;
