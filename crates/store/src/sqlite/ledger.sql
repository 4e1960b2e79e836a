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

-- name: register
-- Enters new ids into the register, in the transaction that creates their rows.
-- parameters: ?1 id >> 5, ?2 bits.
INSERT INTO registered (ids_of, bits) VALUES (?1, ?2) ON CONFLICT (ids_of) DO UPDATE SET bits = bits | excluded.bits

-- name: unregister
-- Removes ids from the register, in the transaction that deletes their rows; answers the bits that are left.
-- parameters: ?1 id >> 5, ?2 bits.
UPDATE registered SET bits = bits & ~?2 WHERE ids_of = ?1 RETURNING bits

-- name: delete_registered
-- Deletes a row of the register that has no ids any more.
-- parameters: ?1 id >> 5.
DELETE FROM registered WHERE ids_of = ?1

-- name: add_to_partition
-- Adds to the accepted and deleted tasks of a partition, in the transaction that creates or deletes their rows.
-- parameters: ?1 partition, ?2 how many were accepted, ?3 how many were deleted.
INSERT INTO partition_account (partition, accepted, deleted) VALUES (?1, ?2, ?3)
ON CONFLICT (partition) DO UPDATE SET accepted = accepted + excluded.accepted, deleted = deleted + excluded.deleted

-- name: list_partitions
-- Lists the accepted and deleted tasks of each partition.
SELECT partition, accepted, deleted FROM partition_account ORDER BY partition

-- name: empty_partitions
-- Sets the accepted tasks of each partition to those that were deleted, for a repair: `fill_partitions` follows.
UPDATE partition_account SET accepted = deleted

-- name: fill_partitions
-- Adds the rows of each partition to its accepted tasks.
INSERT INTO partition_account (partition, accepted, deleted) SELECT partition, count(*), 0 FROM task WHERE true GROUP BY partition
ON CONFLICT (partition) DO UPDATE SET accepted = accepted + excluded.accepted

-- name: list_registered
-- Lists the register, in order.
SELECT ids_of, bits FROM registered ORDER BY ids_of

-- name: list_rows
-- Lists what a count compares of every row, in the order of ids: reads the whole table.
SELECT id, partition, namespace, task_id, task_version, queue, state, due_at, wait_at, place_due_at
FROM task ORDER BY id

-- name: list_reports
-- Lists the reports of counts, and requests for one.
SELECT part, requests, answered, body FROM ledger_report ORDER BY part

-- name: save_report
-- Saves the report of a count, instead of the one before.
-- parameters: ?1 database, ?2 how many requests it answers, ?3 report (JSON).
INSERT INTO ledger_report (part, requests, answered, body) VALUES (?1, ?2, ?2, ?3)
ON CONFLICT (part) DO UPDATE SET answered = excluded.answered, body = excluded.body

-- name: request_count
-- Requests a count.
-- parameters: ?1 database.
INSERT INTO ledger_report (part, requests, answered) VALUES (?1, 1, 0)
ON CONFLICT (part) DO UPDATE SET requests = requests + 1

-- name: delete_register
-- Deletes the register, for a repair.
DELETE FROM registered

-- name: fill_register
-- Fills the empty register from the rows.
INSERT INTO registered (ids_of, bits) SELECT id >> 5, sum(1 << (id & 31)) FROM task GROUP BY id >> 5

-- name: delete_books
-- Deletes the account, for a repair.
DELETE FROM books

-- name: fill_books
-- Fills the empty account from the rows, as `count_books` counts them.
INSERT INTO books (namespace, queue, state, tasks, bytes)
SELECT namespace, queue, state, count(*), sum(CASE
    WHEN lease_until IS NOT NULL OR keep_until IS NOT NULL THEN 0
    WHEN payload_is_json >= 2 THEN CAST(CAST(task.payload AS TEXT) AS INTEGER)
    ELSE coalesce(length(task.payload), length(body.payload), 0) END)
FROM task LEFT JOIN body ON task.payload IS NULL AND body.id = task.id
GROUP BY namespace, queue, state

-- name: correct_accepted
-- Sets the number of accepted tasks to those that were deleted and those that have rows.
UPDATE meta SET value = (SELECT deleted.value FROM meta AS deleted WHERE deleted.key = 'deleted') + (SELECT count(*) FROM task)
WHERE key = 'accepted'

-- name: delete_reports
-- Deletes the reports of counts: the next look counts.
DELETE FROM ledger_report
