-- Events and samples of engines; the size of the file and due times for the console.

-- name: append_event
-- Appends an event, unless one with its key exists.
-- parameters: ?1 at (ms), ?2 kind, ?3 key, ?4 engine, ?5 text, ?6 details (JSON).
INSERT INTO event (at, kind, event_key, engine, text, details) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (event_key) DO NOTHING

-- name: count_due_by_step
-- Counts the waiting tasks of one partition for each step of a time span that begins now or later. Reads one short
-- range of the index, and as many tasks as the limit at most.
-- parameters: ?1 partition, ?2 from (ms, inclusive), ?3 until (ms, exclusive), ?4 step (ms), ?5 limit.
SELECT (wait_at - ?2) / ?4 AS step, count(*)
FROM (
    SELECT wait_at FROM task
    WHERE partition = ?1 AND wait_at >= ?2 AND wait_at < ?3
    ORDER BY wait_at LIMIT ?5
)
GROUP BY step ORDER BY step

-- name: list_events
-- Lists events, the newest first. An empty text is no condition. `+at` keeps SQLite on the order of the numbers.
-- parameters: ?1 below this number, ?2 kind, ?3 engine, ?4 from (ms), ?5 before (ms), ?6 limit.
SELECT id, at, kind, event_key, engine, text, details
FROM event
WHERE id < ?1 AND (?2 = '' OR kind = ?2) AND (?3 = '' OR engine = ?3) AND +at >= ?4 AND +at < ?5
ORDER BY id DESC LIMIT ?6

-- name: list_queue_samples
-- Lists what engines have counted for their queues.
-- parameters: ?1 from this step on (ms), ?2 limit.
SELECT step_at, engine, body FROM queue_sample WHERE step_at >= ?1 ORDER BY step_at, engine LIMIT ?2

-- name: list_samples_of_queue
-- Lists what engines have counted for one queue, in the form in which cluster.rs writes a sample.
-- parameters: ?1 the path of its counts in a body, ?2 from this step on (ms), ?3 limit.
SELECT step_at, engine,
    '{"started_ms":' || json_extract(body, '$.started_ms') || ',"until_ms":' || json_extract(body, '$.until_ms') ||
        ',"counts":' || COALESCE(json_extract(body, ?1), '{}') || '}'
FROM queue_sample WHERE step_at >= ?2 ORDER BY step_at, engine LIMIT ?3

-- name: list_samples
-- Lists what engines have counted.
-- parameters: ?1 from this step on (ms), ?2 limit.
SELECT step_at, engine, body FROM engine_sample WHERE step_at >= ?1 ORDER BY step_at, engine LIMIT ?2

-- name: save_queue_sample
-- Saves what an engine has counted for its queues in a step.
-- parameters: ?1 step (ms), ?2 engine, ?3 body (JSON).
INSERT OR REPLACE INTO queue_sample (step_at, engine, body) VALUES (?1, ?2, ?3)

-- name: save_sample
-- Saves what an engine has counted in a step.
-- parameters: ?1 step (ms), ?2 engine, ?3 body (JSON).
INSERT OR REPLACE INTO engine_sample (step_at, engine, body) VALUES (?1, ?2, ?3)

-- name: read_file_size
-- Reads the size of the file in bytes.
SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()

-- name: delete_events_beyond
-- Deletes the oldest events beyond a number of events.
-- parameters: ?1 how many may stay, ?2 limit.
DELETE FROM event WHERE id IN (
    SELECT id FROM event WHERE id <= (SELECT id FROM event ORDER BY id DESC LIMIT 1 OFFSET ?1) ORDER BY id LIMIT ?2
)

-- name: delete_old_events
-- Deletes the oldest events before an instant.
-- parameters: ?1 before (ms), ?2 how many at most.
DELETE FROM event WHERE id IN (SELECT id FROM event WHERE at < ?1 ORDER BY at LIMIT ?2)

-- name: delete_old_queue_samples
-- Deletes samples of queues before a step.
-- parameters: ?1 before this step (ms).
DELETE FROM queue_sample WHERE step_at < ?1

-- name: delete_old_samples
-- Deletes samples before a step.
-- parameters: ?1 before this step (ms).
DELETE FROM engine_sample WHERE step_at < ?1
