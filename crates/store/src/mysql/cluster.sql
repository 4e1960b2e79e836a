-- Events and samples of engines, in the catalog; sizes of tables and due times for the console.

-- name: append_event
-- Appends an event, unless one with its key exists.
-- parameters: 1 at (ms), 2 kind, 3 key, 4 engine, 5 text, 6 details (JSON).
INSERT IGNORE INTO event (at, kind, event_key, engine, text, details) VALUES (?, ?, ?, ?, ?, ?)

-- name: count_due_by_step
-- Counts the tasks of one partition for each step of a time span: rows that were read, and those of them that wait
-- for their time. Reads one short range of the key, and as many rows as the limit at most.
-- parameters: 1 from (ms), 2 step (ms), 3 partition, 4 from (ms, inclusive), 5 until (ms, exclusive), 6 limit.
SELECT CAST((due_at - ?) DIV ? AS SIGNED) AS step, COUNT(*), CAST(SUM(state IN (1, 2, 7)) AS SIGNED)
FROM (
    SELECT due_at, state FROM task FORCE INDEX (PRIMARY)
    WHERE partition_no = ? AND due_at >= ? AND due_at < ?
    ORDER BY due_at, id LIMIT ?
) AS passed
GROUP BY step ORDER BY step

-- name: list_events
-- Lists events, the newest first. An empty text is no condition.
-- parameters: 1 below this number, 2 and 3 kind, 4 and 5 engine, 6 from (ms), 7 before (ms), 8 limit.
SELECT id, at, kind, event_key, engine, text, details
FROM event FORCE INDEX (PRIMARY)
WHERE id < ? AND (? = '' OR kind = ?) AND (? = '' OR engine = ?) AND at >= ? AND at < ?
ORDER BY id DESC LIMIT ?

-- name: find_newest_beyond
-- Finds the newest event beyond a number of events; no row: there are no more.
-- parameters: 1 how many may stay.
SELECT id FROM event ORDER BY id DESC LIMIT 1 OFFSET ?

-- name: list_queue_samples
-- Lists what engines have counted for their queues.
-- parameters: 1 from this step on (ms), 2 limit.
SELECT step_at, engine, body FROM queue_sample WHERE step_at >= ? ORDER BY step_at, engine LIMIT ?

-- name: list_samples_of_queue
-- Lists what engines have counted for one queue, in the form in which cluster.rs writes a sample.
-- parameters: 1 the path of its counts in a body, 2 from this step on (ms), 3 limit.
SELECT step_at, engine,
    CONCAT('{"started_ms":', JSON_EXTRACT(body, '$.started_ms'), ',"until_ms":', JSON_EXTRACT(body, '$.until_ms'),
        ',"counts":', COALESCE(JSON_EXTRACT(body, ?), '{}'), '}')
FROM queue_sample WHERE step_at >= ? ORDER BY step_at, engine LIMIT ?

-- name: list_samples
-- Lists what engines have counted.
-- parameters: 1 from this step on (ms), 2 limit.
SELECT step_at, engine, body FROM engine_sample WHERE step_at >= ? ORDER BY step_at, engine LIMIT ?

-- name: save_queue_sample
-- Saves what an engine has counted for its queues in a step.
-- parameters: 1 step (ms), 2 engine, 3 body (JSON).
REPLACE INTO queue_sample (step_at, engine, body) VALUES (?, ?, ?)

-- name: save_sample
-- Saves what an engine has counted in a step.
-- parameters: 1 step (ms), 2 engine, 3 body (JSON).
REPLACE INTO engine_sample (step_at, engine, body) VALUES (?, ?, ?)

-- name: list_engines
-- Lists the engines that have not left, by name: until when each counts as alive, for how long it has been silent
-- (ms, 0: it is alive), and whether its hot set answers. The clock is the database's.
-- parameters: 1 limit.
SELECT name, alive_until,
    GREATEST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 - alive_until, 0) AS silent_ms, has_hot
FROM engine ORDER BY name LIMIT ?

-- name: delete_events_up_to
-- Deletes events up to a number.
-- parameters: 1 the number (inclusive), 2 how many at most.
DELETE FROM event WHERE id <= ? ORDER BY id LIMIT ?

-- name: delete_old_events
-- Deletes the oldest events before an instant.
-- parameters: 1 before (ms), 2 how many at most.
DELETE FROM event WHERE at < ? ORDER BY at LIMIT ?

-- name: delete_old_queue_samples
-- Deletes samples of queues before a step.
-- parameters: 1 before this step (ms), 2 how many at most.
DELETE FROM queue_sample WHERE step_at < ? ORDER BY step_at, engine LIMIT ?

-- name: delete_old_samples
-- Deletes samples before a step.
-- parameters: 1 before this step (ms), 2 how many at most.
DELETE FROM engine_sample WHERE step_at < ? ORDER BY step_at, engine LIMIT ?

-- name: list_bucket_sizes
-- Lists the buckets in order of time: end (ms, exclusive; NULL for the last one, which has no end), and rows as the
-- server estimates them.
SELECT CASE WHEN PARTITION_DESCRIPTION = 'MAXVALUE' THEN NULL ELSE CAST(PARTITION_DESCRIPTION AS SIGNED) END,
    CAST(TABLE_ROWS AS SIGNED)
FROM information_schema.PARTITIONS
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'task'
ORDER BY PARTITION_ORDINAL_POSITION

-- name: find_earliest_due
-- Finds when the earliest task of a partition is due, in any state.
-- parameters: 1 partition.
SELECT due_at FROM task FORCE INDEX (PRIMARY) WHERE partition_no = ? ORDER BY due_at, id LIMIT 1

-- name: read_table_sizes
-- Reads the name of the database and the sizes of its tables as the server estimates them: rows and bytes of `task`,
-- bytes of all tables, buckets, and how many buckets are wider than they should be (NULL: nobody has looked).
SELECT CAST(DATABASE() AS CHAR),
    CAST(COALESCE(SUM(CASE WHEN TABLE_NAME = 'task' THEN TABLE_ROWS END), 0) AS SIGNED),
    CAST(COALESCE(SUM(CASE WHEN TABLE_NAME = 'task' THEN DATA_LENGTH + INDEX_LENGTH END), 0) AS SIGNED),
    CAST(COALESCE(SUM(DATA_LENGTH + INDEX_LENGTH), 0) AS SIGNED),
    (SELECT COUNT(*) FROM information_schema.PARTITIONS
        WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'task' AND PARTITION_DESCRIPTION <> 'MAXVALUE'),
    (SELECT value FROM meta WHERE name = 'buckets_wide')
FROM information_schema.TABLES
WHERE TABLE_SCHEMA = DATABASE()
