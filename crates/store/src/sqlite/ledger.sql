-- The running account: tasks and bytes by queue and state (`books`), and counters and settings of the file (`meta`).

-- name: add_to_books
-- Adds to the running account, in the transaction that moves the tasks.
-- parameters: ?1 namespace, ?2 queue, ?3 state code, ?4 how many more tasks (negative: fewer), ?5 bytes of payloads
-- of waiting tasks.
INSERT INTO books (namespace, queue, state, tasks, bytes) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (namespace, queue, state) DO UPDATE SET tasks = tasks + excluded.tasks, bytes = bytes + excluded.bytes

-- name: count_books
-- Counts the account from the rows: reads every task.
SELECT namespace, queue, state, count(*), sum(CASE
    WHEN lease_until IS NOT NULL OR keep_until IS NOT NULL THEN 0
    WHEN payload_is_json >= 2 THEN CAST(CAST(task.payload AS TEXT) AS INTEGER)
    ELSE coalesce(length(task.payload), length(body.payload), 0) END)
FROM task LEFT JOIN body ON task.payload IS NULL AND body.id = task.id
GROUP BY namespace, queue, state
ORDER BY namespace, queue, state

-- name: read_body_bytes
-- Reads the bytes of a long payload.
-- parameters: ?1 id.
SELECT length(payload) FROM body WHERE id = ?1

-- name: read_books
-- Reads the running account, sorted.
SELECT namespace, queue, state, tasks, bytes FROM books WHERE tasks <> 0 OR bytes <> 0 ORDER BY namespace, queue, state

-- name: add_to_counter
-- Adds to a counter, in the transaction that makes it true.
-- parameters: ?1 key, ?2 how many.
UPDATE meta SET value = value + ?2 WHERE key = ?1

-- name: check_writable
-- Writes a row that nothing else reads, to find out whether the file can be written.
-- parameters: ?1 key.
INSERT INTO meta (key, value) VALUES (?1, 1) ON CONFLICT (key) DO UPDATE SET value = value + 1

-- name: insert_meta
-- Sets a value that is not set yet. An existing one stays.
-- parameters: ?1 key, ?2 value.
INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO NOTHING

-- name: read_meta
-- Reads a counter or a setting of this file.
-- parameters: ?1 key.
SELECT value FROM meta WHERE key = ?1
