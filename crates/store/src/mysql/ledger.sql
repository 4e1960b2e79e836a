-- The running account: tasks and bytes by queue and state (`books`), and counters.

-- name: add_to_books
-- Adds to the running account, in the transaction that moves the tasks.
-- parameters: of each row: 1 slot, 2 namespace, 3 queue, 4 state code, 5 how many more tasks (negative: fewer),
-- 6 bytes of payloads of waiting tasks.
-- holes: {rows} repeated for each row.
INSERT INTO books (slot, namespace, queue, state, tasks, bytes)
VALUES {rows: (?, ?, ?, ?, ?, ?)}
ON DUPLICATE KEY UPDATE tasks = tasks + VALUES(tasks), bytes = bytes + VALUES(bytes)

-- name: count_books
-- Counts the account from the rows: reads every task. Copies of partitions that are not hosted here do not count.
-- Answers as `read_books`.
SELECT name, CAST(SUM(value) AS SIGNED), NULL, NULL, NULL, NULL FROM counters GROUP BY name
UNION ALL
SELECT NULL, COUNT(*), task.namespace, task.queue, task.state, CAST(SUM(CASE
    WHEN task.lease_until IS NOT NULL OR task.keep_until IS NOT NULL THEN 0
    WHEN task.payload_is_json >= 2 THEN CAST(SUBSTRING_INDEX(task.payload, ' ', 1) AS SIGNED)
    ELSE COALESCE(LENGTH(task.payload), LENGTH(body.payload), 0) END) AS SIGNED)
FROM task
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
WHERE task.partition_no IN (SELECT hosted.partition_no FROM hosted WHERE hosted.state IN (1, 2))
GROUP BY task.namespace, task.queue, task.state

-- name: read_body_bytes
-- Reads the bytes of a long payload.
-- parameters: 1 partition, 2 task id.
SELECT CAST(LENGTH(payload) AS SIGNED) FROM body WHERE partition_no = ? AND id = ?

-- name: read_books
-- Reads the running account of this database. Counters and tallies come from one statement, hence of one instant.
-- answers: a counter's name and its value; or NULL, tasks, namespace, queue, state code, bytes of payloads of waiting
-- tasks.
SELECT name, CAST(SUM(value) AS SIGNED), NULL, NULL, NULL, NULL FROM counters GROUP BY name
UNION ALL
SELECT NULL, CAST(SUM(tasks) AS SIGNED), namespace, queue, state, CAST(SUM(bytes) AS SIGNED)
FROM books GROUP BY namespace, queue, state

-- name: add_to_counters
-- Adds to counters, in the transaction that makes it true.
-- parameters: of each row: 1 slot, 2 name, 3 how many more.
-- holes: {rows} repeated for each row.
INSERT INTO counters (slot, name, value)
VALUES {rows: (?, ?, ?)}
ON DUPLICATE KEY UPDATE value = value + VALUES(value)

-- name: add_to_deleted
-- Adds to the deleted tasks of partitions, in the transaction that deletes their rows.
-- parameters: of each row: 1 slot, 2 partition, 3 how many more.
-- holes: {rows} repeated for each row.
INSERT INTO deleted_tasks (slot, partition_no, tasks)
VALUES {rows: (?, ?, ?)}
ON DUPLICATE KEY UPDATE tasks = tasks + VALUES(tasks)

-- name: read_deleted
-- Reads how many tasks of one partition this database has deleted since it counts them.
-- parameters: 1 partition.
SELECT CAST(COALESCE(SUM(tasks), 0) AS SIGNED) FROM deleted_tasks WHERE partition_no = ?

-- name: lock_uncounted
-- Locks the count of this database's payloads for as long as this connection lasts; answers 1 if it got the lock. Two
-- counts at once would do no harm, but read everything twice. Names of locks are server-wide, hence the hash of the
-- database's name. The comments: as in `lock_maintenance` of buckets.sql.
SELECT CAST(GET_LOCK(CONCAT('punctual count ',
    /*!90600 LEFT(SHA2(DATABASE(), 256), 40 + 0 * LENGTH(' */ SHA1(DATABASE()) /*!90600 ')) */
), 0) AS SIGNED)

-- name: delete_uncounted
-- Deletes the mark that bytes are missing, in the transaction that adds them. Of two counts, the first deletes the
-- row.
DELETE FROM meta WHERE name = 'uncounted_bytes'

-- name: has_uncounted
-- Answers a row if the account lacks the bytes of tasks from before it counted them.
SELECT 1 FROM meta WHERE name = 'uncounted_bytes'

-- name: sum_uncounted
-- Sums the bytes of the payloads of one partition's waiting tasks, by queue.
-- parameters: 1 partition.
-- answers: namespace, queue, bytes.
SELECT task.namespace, task.queue, CAST(SUM(CASE
    WHEN task.payload_is_json >= 2 THEN CAST(SUBSTRING_INDEX(task.payload, ' ', 1) AS SIGNED)
    ELSE COALESCE(LENGTH(task.payload), LENGTH(body.payload), 0) END) AS SIGNED)
FROM task
LEFT JOIN body FORCE INDEX (PRIMARY) ON task.payload IS NULL AND body.partition_no = task.partition_no AND body.id = task.id
WHERE task.partition_no = ? AND task.lease_until IS NULL AND task.keep_until IS NULL
GROUP BY task.namespace, task.queue

-- name: count_rows
-- Counts the rows of one partition by queue and state, for a count of the ledger: how many, the sum of their
-- fingerprints (as `count_entries`), and how many no reference leads to, because they are not at the due time of their
-- reference, and `moved` does not say where.
-- parameters: 1 partition.
SELECT task.namespace, task.queue, task.state, COUNT(*),
    CAST(SUM(CRC32(CONCAT_WS(' ', task.namespace, task.task_id, task.task_version, task.id, task.place_due_at))) AS SIGNED),
    CAST(SUM(CASE WHEN task.due_at = task.place_due_at THEN 0 ELSE (
        SELECT COUNT(*) = 0 FROM moved
        WHERE moved.partition_no = task.partition_no AND moved.id = task.id AND moved.due_at = task.due_at) END) AS SIGNED)
FROM task FORCE INDEX (PRIMARY)
WHERE task.partition_no = ?
GROUP BY task.namespace, task.queue, task.state

-- name: count_entries
-- Counts the register of one partition: how many entries, and the sum of their fingerprints.
-- parameters: 1 partition.
SELECT COUNT(*), CAST(COALESCE(SUM(CRC32(CONCAT_WS(' ', namespace, task_id, task_version, id, due_at))), 0) AS SIGNED)
FROM registry FORCE INDEX (PRIMARY) WHERE partition_no = ?

-- name: list_lost
-- Lists entries of the register of one partition that lead to no row: neither at the place of the reference, nor where
-- it has moved, nor in the bucket that is being dropped.
-- parameters: 1 partition, 2 limit.
SELECT CAST(registry.namespace AS CHAR), registry.task_id, registry.task_version, registry.id, registry.due_at
FROM registry FORCE INDEX (PRIMARY)
LEFT JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = registry.partition_no AND task.due_at = registry.due_at
    AND task.id = registry.id
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = registry.partition_no AND moved.id = registry.id
LEFT JOIN task elsewhere FORCE INDEX (PRIMARY)
    ON elsewhere.partition_no = moved.partition_no AND elsewhere.due_at = moved.due_at
    AND elsewhere.id = moved.id
LEFT JOIN task_gone FORCE INDEX (PRIMARY) ON task_gone.partition_no = registry.partition_no
    AND task_gone.due_at = COALESCE(moved.due_at, registry.due_at) AND task_gone.id = registry.id
WHERE registry.partition_no = ? AND task.id IS NULL AND elsewhere.id IS NULL AND task_gone.id IS NULL
LIMIT ?

-- name: list_strays
-- Lists rows of one partition that the register does not have, or that are not where it and `moved` say; and rows at the
-- place of their reference whose task is also where it has moved to.
-- parameters: 1 partition, 2 limit.
-- answers: namespace, task_id, task_version, id, due_at, queue, state, 1 if the register has the row's id under its
-- name, and the due time of the reference.
SELECT CAST(task.namespace AS CHAR), task.task_id, task.task_version, task.id, task.due_at, CAST(task.queue AS CHAR),
    task.state, CAST(registry.id IS NOT NULL AS SIGNED), COALESCE(registry.due_at, task.place_due_at)
FROM task FORCE INDEX (PRIMARY)
LEFT JOIN registry FORCE INDEX (PRIMARY) ON registry.partition_no = task.partition_no
    AND registry.namespace = task.namespace AND registry.task_id = task.task_id
    AND registry.task_version = task.task_version AND registry.id = task.id
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = task.partition_no AND moved.id = task.id
LEFT JOIN task elsewhere FORCE INDEX (PRIMARY)
    ON elsewhere.partition_no = moved.partition_no AND elsewhere.due_at = moved.due_at
    AND elsewhere.id = moved.id AND moved.due_at <> task.due_at
WHERE task.partition_no = ? AND (registry.id IS NULL OR registry.due_at <> task.place_due_at OR elsewhere.id IS NOT NULL
    OR (task.due_at <> task.place_due_at AND (moved.id IS NULL OR moved.due_at <> task.due_at)))
LIMIT ?

-- name: list_reports
-- Lists the reports of counts, and requests for one.
SELECT part, requests, answered, body FROM ledger_report ORDER BY part

-- name: save_report
-- Saves the report of a count, instead of the one before.
-- parameters: 1 database, 2 and 3 how many requests it answers, 4 report (JSON).
INSERT INTO ledger_report (part, requests, answered, body) VALUES (?, ?, ?, ?)
ON DUPLICATE KEY UPDATE answered = VALUES(answered), body = VALUES(body)

-- name: request_count
-- Requests a count.
-- parameters: 1 database.
INSERT INTO ledger_report (part, requests, answered) VALUES (?, 1, 0)
ON DUPLICATE KEY UPDATE requests = requests + 1
