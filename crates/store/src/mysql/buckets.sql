-- The buckets of `task`: partitions of the table by due time. One connection at a time changes them
-- (buckets/session.rs).

-- name: lock_maintenance
-- Locks the changes of this database's buckets for as long as this connection lasts; answers 1 if it got the lock.
-- Changes of the table run on the same connection, so none of them can come after the lock is lost. Names of locks
-- are server-wide, hence the hash of the database's name. MySQL has no SHA1 from 9.6 on: it then reads the comments,
-- and the text between them is a string to it; older servers and MariaDB skip the comments.
SELECT CAST(GET_LOCK(CONCAT('punctual ',
    /*!90600 LEFT(SHA2(DATABASE(), 256), 40 + 0 * LENGTH(' */ SHA1(DATABASE()) /*!90600 ')) */
), 0) AS SIGNED)

-- name: has_rows
-- Answers a row if the bucket has any tasks.
-- parameters: 1 begin of the bucket (ms), 2 its end (ms, exclusive).
SELECT 1 FROM task WHERE due_at >= ? AND due_at < ? LIMIT 1

-- name: count_piece
-- Counts the tasks in a piece of a bucket: all; unfinished ones; finished ones whose retention lasts; successes whose
-- retention is over and that are not stopped yet. The second and the third number are what is still needed.
-- parameters: 1 now (ms), 2 now (ms), 3 begin of the bucket (ms), 4 its end (ms, exclusive), 5 to 10 after this row
-- (partition, partition, due_at, partition, due_at, id; exclusive), 11 to 16 up to this row (the same six;
-- inclusive).
SELECT COUNT(*),
    CAST(COALESCE(SUM(state NOT IN (8, 9, 10, 11)), 0) AS SIGNED),
    CAST(COALESCE(SUM(state IN (8, 9, 10, 11) AND keep_until > ?), 0) AS SIGNED),
    CAST(COALESCE(SUM(state = 8 AND keep_until <= ?), 0) AS SIGNED)
FROM task
WHERE due_at >= ? AND due_at < ?
    AND (partition_no > ?
        OR (partition_no = ? AND due_at > ?)
        OR (partition_no = ? AND due_at = ? AND id > ?))
    AND (partition_no < ?
        OR (partition_no = ? AND due_at < ?)
        OR (partition_no = ? AND due_at = ? AND id <= ?))

-- name: split
-- Splits a bucket. The line with the name is written once for each part. The server copies the rows of the bucket
-- while nobody can write: there must be few.
-- holes: {bucket} name of the bucket, {name} name of a part, {ends_at} end of the part (ms, exclusive, or MAXVALUE).
ALTER TABLE task REORGANIZE PARTITION {bucket} INTO (
    PARTITION {name} VALUES LESS THAN ({ends_at})
)

-- name: drop
-- Drops an empty bucket, where the server does not know the statement `detach`.
-- holes: {name} name of the bucket.
ALTER TABLE task DROP PARTITION {name}

-- name: unlock_maintenance
-- Releases the lock of `lock_maintenance` before the connection is closed, which the server may notice later.
DO RELEASE_LOCK(CONCAT('punctual ',
    /*!90600 LEFT(SHA2(DATABASE(), 256), 40 + 0 * LENGTH(' */ SHA1(DATABASE()) /*!90600 ')) */
))

-- name: set_read_committed
-- Sets this connection to an isolation that locks no gaps.
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED

-- name: detach
-- Takes an empty bucket out of `task`, as a table of its own. A drop would be one step, but MariaDB then waits for
-- its purge in steps of a second while all other statements wait (purge_sys_t::stop_FTS in delete_table of a
-- partition). MariaDB from 10.7 on; other servers do not know the words.
-- holes: {name} name of the bucket.
ALTER TABLE task CONVERT PARTITION {name} TO TABLE task_left

-- name: list
-- Lists the buckets in order of time: name, and end (ms, exclusive; NULL for the last one, which has no end).
SELECT CAST(PARTITION_NAME AS CHAR),
    CASE WHEN PARTITION_DESCRIPTION = 'MAXVALUE' THEN NULL ELSE CAST(PARTITION_DESCRIPTION AS SIGNED) END
FROM information_schema.PARTITIONS
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'task'
ORDER BY PARTITION_ORDINAL_POSITION

-- name: list_needed
-- Lists the rows of a piece that must be kept, in the order of the key: unfinished tasks, and finished ones whose
-- retention lasts. A success becomes stopped before it can be dropped.
-- parameters: 1 begin of the bucket (ms), 2 its end (ms, exclusive), 3 to 8 after this row (partition, partition,
-- due_at, partition, due_at, id; exclusive), 9 to 14 up to this row (the same six; inclusive), 15 now (ms), 16 limit.
SELECT partition_no, due_at, id FROM task
WHERE due_at >= ? AND due_at < ?
    AND (partition_no > ?
        OR (partition_no = ? AND due_at > ?)
        OR (partition_no = ? AND due_at = ? AND id > ?))
    AND (partition_no < ?
        OR (partition_no = ? AND due_at < ?)
        OR (partition_no = ? AND due_at = ? AND id <= ?))
    AND (state NOT IN (9, 10, 11) OR keep_until > ?)
ORDER BY partition_no, due_at, id LIMIT ?

-- name: read_rate
-- Reads how many tasks this database has accepted from callers, and the last measurement: when (ms), accepted until
-- then, tasks an hour at most and on a day's average; NULL: none yet. The last column is how many buckets are wider
-- than they should be. Negative slots are not counted: partitions that moved, and corrections.
SELECT
    (SELECT CAST(COALESCE(SUM(value), 0) AS SIGNED) FROM counters WHERE name = 'accepted' AND slot >= 0),
    (SELECT value FROM meta WHERE name = 'rate_at'),
    (SELECT value FROM meta WHERE name = 'rate_inserted'),
    (SELECT value FROM meta WHERE name = 'rate_peak'),
    (SELECT value FROM meta WHERE name = 'rate_mean'),
    (SELECT value FROM meta WHERE name = 'buckets_wide')

-- name: save_rate
-- Saves a measurement.
-- parameters: 1 when (ms), 2 tasks accepted until then, 3 tasks an hour at most, 4 tasks an hour on a day's average.
INSERT INTO meta (name, value)
VALUES ('rate_at', ?), ('rate_inserted', ?), ('rate_peak', ?), ('rate_mean', ?)
ON DUPLICATE KEY UPDATE value = VALUES(value)

-- name: set_lock_wait
-- Bounds how long (s) a change of the table waits for statements under way; all later statements wait behind it.
SET SESSION lock_wait_timeout = 1

-- name: count_up_to
-- Counts the tasks of a bucket, up to a bound.
-- parameters: 1 begin of the bucket (ms), 2 its end (ms, exclusive), 3 bound.
SELECT COUNT(*) FROM (SELECT due_at FROM task WHERE due_at >= ? AND due_at < ? LIMIT ?) some

-- name: find_piece_end
-- Finds the last row of the next piece of a bucket; no row: the piece is the rest.
-- parameters: 1 begin of the bucket (ms), 2 its end (ms, exclusive), 3 to 8 after this row (partition, partition,
-- due_at, partition, due_at, id; exclusive), 9 rows to skip.
SELECT partition_no, due_at, id FROM task
WHERE due_at >= ? AND due_at < ?
    AND (partition_no > ?
        OR (partition_no = ? AND due_at > ?)
        OR (partition_no = ? AND due_at = ? AND id > ?))
ORDER BY partition_no, due_at, id LIMIT 1 OFFSET ?

-- name: exchange
-- Moves all rows of a bucket from `task` to `task_gone` at once, however many they are. `task_gone` must be empty.
-- holes: {name} name of the bucket.
ALTER TABLE task EXCHANGE PARTITION {name} WITH TABLE task_gone

-- name: list_unwatched
-- Lists tasks in flight in a piece of a bucket, in the order of the key, whose leases ended so long ago that the
-- search for ended leases must have missed them.
-- parameters: 1 begin of the bucket (ms), 2 its end (ms, exclusive), 3 to 8 after this row (partition, partition,
-- due_at, partition, due_at, id; exclusive), 9 to 14 up to this row (the same six; inclusive), 15 lease ended at or
-- before (ms), 16 limit.
SELECT partition_no, due_at, id FROM task
WHERE due_at >= ? AND due_at < ?
    AND (partition_no > ?
        OR (partition_no = ? AND due_at > ?)
        OR (partition_no = ? AND due_at = ? AND id > ?))
    AND (partition_no < ?
        OR (partition_no = ? AND due_at < ?)
        OR (partition_no = ? AND due_at = ? AND id <= ?))
    AND state IN (4, 5) AND lease_until <= ?
ORDER BY partition_no, due_at, id LIMIT ?

-- name: save_wide_count
-- Saves how many buckets are wider than they should be and cannot be split.
-- parameters: 1 how many.
INSERT INTO meta (name, value)
VALUES ('buckets_wide', ?)
ON DUPLICATE KEY UPDATE value = VALUES(value)

-- name: has_detached
-- Answers a row if the table of a detached bucket exists.
SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'task_left'

-- name: restore_detached
-- Puts back the rows that were inserted into the bucket between the last look and `detach`. Nobody else uses this
-- table.
INSERT INTO task SELECT * FROM task_left;
DELETE FROM task_left

-- name: drop_detached
-- Drops the table of a detached bucket, which must be empty.
DROP TABLE task_left
