-- Where the tasks of a queue are: chunks of 1,024 ids. A row a chunk and not a row a task, so that an insert costs next to nothing.
-- The same tables in every database; each statement can be run again.

-- That tasks of a queue and a kind are, or were, among the ids of a chunk (id DIV 1024) of this database. Only a hint where to look:
-- the task's row decides. Entered in the transaction that inserts. A slot belongs to one writing connection, as in `books`, so
-- that transactions never wait for each other here; -1: what stood before, -2: what has moved here.
CREATE TABLE IF NOT EXISTS task_chunk (
    namespace VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- Empty, and so the kind: that the namespace has tasks there. '*', and an empty kind: that any queue may have some.
    queue VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    chunk BIGINT NOT NULL,
    kind VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    slot INT NOT NULL,
    -- A writer that remembers the row enters it again after some minutes: what was not for a day is remembered by none.
    noted_at BIGINT NOT NULL,
    PRIMARY KEY (namespace, queue, chunk, kind, slot)
) ENGINE = InnoDB;

-- With each sign of life an engine says that it enters chunks. One of an older release says nothing, and as long as such a one is
-- alive, the index is not begun. MySQL 8 has no ADD COLUMN IF NOT EXISTS.
SET @alter_engine = IF((
    SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'engine' AND column_name = 'enters_chunks') = 0,
    'ALTER TABLE engine ADD COLUMN enters_chunks TINYINT NOT NULL DEFAULT 0', 'DO 0');
PREPARE alter_engine FROM @alter_engine;
EXECUTE alter_engine;
DEALLOCATE PREPARE alter_engine;

-- chunks_below: tasks below this id are not entered yet; 0: all are; absent: not begun, and nothing is found by chunks. A database
-- that is of no cluster yet has no tasks.
INSERT IGNORE INTO meta (name, value)
SELECT 'chunks_below', 0 FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM meta AS known WHERE known.name = 'cluster');
