-- What every connection is set to: each statement sees what is committed, nothing is cut off or guessed to fit, and
-- a transaction that waits for a row gives up before its callers do. An engine that is frozen in the middle of a
-- transaction holds its rows no longer than 3 s (MariaDB; MySQL has no such setting and passes over the comment, which
-- must not be a statement of its own: there an empty one is an error. See writer.sql for both). Answers the server's
-- number of the connection.
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO', innodb_lock_wait_timeout = 10
    /*M!100300 , idle_transaction_timeout = 3 */;
SELECT CAST(CONNECTION_ID() AS SIGNED)
