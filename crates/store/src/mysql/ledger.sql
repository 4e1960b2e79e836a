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
