-- Connections, transactions and migrations.

-- name: record_migration
-- Records a migration that has been applied.
-- parameters: 1 position, 2 name, 3 checksum.
INSERT INTO migration (position, name, checksum) VALUES (?, ?, ?)

-- name: is_busy
-- Reads whether the server is at work on a statement of a connection: 0 or 1; no row: the connection is gone. A user
-- sees its own connections without any further right.
-- parameters: 1 number of the connection.
SELECT CAST(command <> 'Sleep' AS SIGNED) FROM information_schema.processlist WHERE id = ?

-- name: read_durability
-- Reads the settings by which the server may lose what it has acknowledged, or refuses to store anything.
SELECT CAST(@@GLOBAL.innodb_flush_log_at_trx_commit AS SIGNED), CAST(@@GLOBAL.log_bin AS SIGNED),
    CAST(@@GLOBAL.sync_binlog AS SIGNED), CAST(@@GLOBAL.read_only AS SIGNED)

-- name: kill
-- Ends a connection: what it has not committed is undone, and its locks are released.
-- holes: {connection} number of the connection.
KILL {connection}

-- name: count_migration_tables
-- Reads whether migrations are recorded in this database: 0 or 1.
SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'migration'

-- name: lock_migrations
-- Waits until nobody else migrates this database. The lock is released when the connection ends.
-- parameters: 1 how long to wait (s).
-- answers: 1, or 0 if the time was over.
SELECT GET_LOCK(CONCAT('punctual/', LEFT(SHA2(DATABASE(), 256), 40)), ?)

-- name: list_migrations
-- Lists the migrations that this database has, in order.
SELECT position, name, checksum FROM migration ORDER BY position

-- name: create_migration_table
-- Creates the table in which migrations are recorded, before the first of them: a database that has it is one of
-- ours. `checksum` is the SHA-256 of the file, in hex: an applied migration never changes.
CREATE TABLE IF NOT EXISTS migration (
    position INT NOT NULL,
    name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    checksum VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (position)
) ENGINE = InnoDB

-- name: set_session
-- Sets up a connection: each statement sees what is committed, nothing is cut off or guessed to fit, and a
-- transaction that waits for a row gives up before its callers do. An engine that is frozen in a transaction holds
-- its rows for 3 s at most (MariaDB; MySQL has no such setting and skips the comment, which must not be a statement
-- of its own: MySQL refuses an empty one. See `set_writer_timeout` for both). Answers the server's number of the
-- connection.
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO', innodb_lock_wait_timeout = 10
    /*M!100300 , idle_transaction_timeout = 3 */;
SELECT CAST(CONNECTION_ID() AS SIGNED)

-- name: find_any_table
-- Finds a table of this database, if it has any.
SELECT CAST(table_name AS CHAR) FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 1 LIMIT 1

-- name: set_writer_timeout
-- Sets up a connection that opens transactions: the server closes it, and undoes what it has not committed, if
-- nothing was asked on it for 3 s. An idle writer asks something every second. So the rows of an engine that is
-- frozen, or whose host is gone, are free after 3 s on MySQL too, inside a transaction and outside.
SET SESSION wait_timeout = 3

-- name: begin_snapshot
-- Begins a transaction whose statements all see the same instant.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY
