-- Where tasks can be looked up: by terms of declared labels and of dead tasks (`lookup`), and by chunks of ids of a
-- queue (`task_chunk`).

-- name: advance_chunks
-- Saves that tasks below an id are not entered in chunks yet; 0: all are.
-- parameters: 1 id.
UPDATE meta SET value = ? WHERE name = 'chunks_below'

-- name: begin_chunks
-- Begins to enter chunks: tasks that are inserted from now on are entered, and earlier ones have ids below.
INSERT IGNORE INTO meta (name, value) SELECT 'chunks_below', COALESCE(MAX(id) + 1, 0) FROM registry

-- name: has_engine_without_chunks
-- Answers a row if an engine is alive that does not enter chunks. In the catalog.
SELECT 1 FROM engine
WHERE enters_chunks = 0 AND alive_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 LIMIT 1

-- name: read_chunks_below
-- Reads below which id tasks are not entered in chunks yet; 0: all are entered; no row: it has not begun.
SELECT value FROM meta WHERE name = 'chunks_below'

-- name: delete_empty_chunks
-- Deletes rows of chunks of a queue that have no tasks any more, if no writer can remember them. The caller has
-- looked whether they have tasks; a writer that stores one now enters the row again. The clock is the database's.
-- parameters: 1 namespace, 2 queue, 3 above this chunk, 4 below this chunk, 5 noted longer ago than this (ms),
-- 6 limit.
DELETE FROM task_chunk
WHERE namespace = ? AND queue = ? AND chunk > ? AND chunk < ?
    AND noted_at < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 - ?
ORDER BY namespace, queue, chunk, kind, slot LIMIT ?

-- name: lock_chunks_below
-- Reads what `read_chunks_below` reads, and locks it until the end of the transaction.
SELECT value FROM meta WHERE name = 'chunks_below' FOR UPDATE

-- name: list_newest_chunks
-- Lists the newest chunks of this database that may have tasks of a queue, down from one chunk: those of the queue,
-- and those that may have tasks of any queue ('*').
-- parameters: 1 namespace, 2 queue (empty: of any), 3 chunk, 4 and 5 kind (NULL: any), 6 limit, 7 namespace, 8 chunk,
-- 9 limit, 10 limit.
(
    SELECT chunk FROM task_chunk FORCE INDEX (PRIMARY)
    WHERE namespace = ? AND queue = ? AND chunk <= ? AND (? IS NULL OR kind = ?)
    GROUP BY chunk ORDER BY chunk DESC LIMIT ?
) UNION (
    SELECT chunk FROM task_chunk FORCE INDEX (PRIMARY)
    WHERE namespace = ? AND queue = '*' AND chunk <= ?
    GROUP BY chunk ORDER BY chunk DESC LIMIT ?
)
ORDER BY chunk DESC LIMIT ?

-- name: note_chunks
-- Notes that tasks of a queue have ids in a chunk. The clock is the database's.
-- parameters: of each row: 1 namespace, 2 queue, 3 chunk, 4 kind, 5 slot.
-- holes: {rows} repeated for each row.
INSERT INTO task_chunk (namespace, queue, chunk, kind, slot, noted_at)
VALUES {rows: (?, ?, ?, ?, ?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)}
ON DUPLICATE KEY UPDATE noted_at = GREATEST(task_chunk.noted_at, VALUES(noted_at))

-- name: find_next_queue
-- Finds the next queue that has chunks.
-- parameters: 1 namespace, 2 the same namespace, 3 after this queue.
SELECT namespace, queue FROM task_chunk FORCE INDEX (PRIMARY)
WHERE namespace > ? OR (namespace = ? AND queue > ?) ORDER BY namespace, queue LIMIT 1

-- name: find_next_chunk
-- Finds the next chunk of a queue.
-- parameters: 1 namespace, 2 queue, 3 above this chunk.
SELECT chunk FROM task_chunk FORCE INDEX (PRIMARY)
WHERE namespace = ? AND queue = ? AND chunk > ? ORDER BY namespace, queue, chunk LIMIT 1

-- name: enter_earlier_chunks
-- Enters the chunks of tasks that were inserted before chunks were entered. A bucket that is being dropped counts
-- too: some of its tasks may be put back.
-- parameters: 1 and 2 whether of any queue, 3 from this id, 4 to this id (inclusive).
INSERT IGNORE INTO task_chunk (namespace, queue, chunk, kind, slot, noted_at)
SELECT DISTINCT registry.namespace, IF(?, '', COALESCE(task.queue, task_gone.queue)), registry.id DIV 1024,
    IF(?, '', COALESCE(task.kind, task_gone.kind)), -1,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
FROM registry FORCE INDEX (registry_newest)
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = registry.partition_no AND moved.id = registry.id
LEFT JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = registry.partition_no AND task.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task.id = registry.id
LEFT JOIN task_gone FORCE INDEX (PRIMARY)
    ON task_gone.partition_no = registry.partition_no AND task_gone.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task_gone.id = registry.id
WHERE registry.id >= ? AND registry.id <= ? AND COALESCE(task.queue, task_gone.queue) IS NOT NULL

-- name: add_terms
-- Enters terms by which tasks can be looked up. One that exists stays.
-- parameters: of each row: 1 term, 2 id, 3 partition.
-- holes: {rows} repeated for each row.
INSERT IGNORE INTO lookup (term, id, partition_no)
VALUES {rows: (?, ?, ?)}

-- name: advance_label
-- Saves how far the earlier tasks of a label are entered.
-- parameters: 1 tasks below this id are not entered yet (NULL: all are), 2 namespace, 3 queue, 4 label.
UPDATE indexed_label SET below_id = ? WHERE namespace = ? AND queue = ? AND label = ?

-- name: list_earlier_dead
-- Lists the dead tasks in a range of ids, after `lock_range`. A bucket that is being dropped counts too: some of its
-- tasks may be put back.
-- parameters: 1 from this id, 2 to this id (inclusive).
SELECT STRAIGHT_JOIN registry.id, registry.partition_no, registry.namespace
FROM registry FORCE INDEX (registry_newest)
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = registry.partition_no AND moved.id = registry.id
LEFT JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = registry.partition_no AND task.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task.id = registry.id
LEFT JOIN task_gone FORCE INDEX (PRIMARY)
    ON task_gone.partition_no = registry.partition_no AND task_gone.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task_gone.id = registry.id
WHERE registry.id >= ? AND registry.id <= ? AND (task.state = 9 OR task_gone.state = 9)
ORDER BY registry.id LIMIT 1000000

-- name: is_dead_complete
-- Answers a row if all dead tasks of this database are entered.
SELECT 1 FROM indexed_label WHERE namespace = '' AND queue = '' AND label = 'dead' AND below_id IS NULL

-- name: declare_label
-- Declares a label: tasks that are inserted from now on are entered, and earlier ones have ids below the next one. A
-- declared label stays as it is. The transaction has advanced the epoch, so nobody inserts labels meanwhile.
-- parameters: 1 namespace, 2 queue, 3 label.
INSERT IGNORE INTO indexed_label (namespace, queue, label, begun_id, below_id)
SELECT ?, ?, ?, COALESCE(MAX(id), 0) + 1, MAX(id) + 1 FROM registry

-- name: find_term_bound
-- Finds how far one search among the tasks of a term goes: the id after a number of entries; no row: to the end.
-- parameters: 1 term, 2 below this id, 3 entries to skip.
SELECT id FROM lookup FORCE INDEX (PRIMARY) WHERE term = ? AND id < ? ORDER BY term DESC, id DESC LIMIT 1 OFFSET ?

-- name: delete_terms
-- Deletes the terms of a task whose labels or queue have changed.
-- parameters: 1 partition, 2 id.
DELETE FROM lookup WHERE partition_no = ? AND id = ?

-- name: lock_range
-- Locks the tasks of a range of ids against deletion until the end of the transaction. The order keeps the server
-- from reading, and locking, the whole registry while it believes that there are no rows.
-- parameters: 1 from this id, 2 to this id (inclusive).
SELECT id FROM registry FORCE INDEX (registry_newest) WHERE id >= ? AND id <= ? ORDER BY id LIMIT 1000000 LOCK IN SHARE MODE

-- name: has_earlier
-- Answers a row if earlier tasks are left to enter, without reading any of them.
SELECT 1 FROM indexed_label WHERE below_id IS NOT NULL LIMIT 1

-- name: list_declared
-- Lists what this database enters, as of the epoch that this transaction holds.
SELECT namespace, queue, label FROM indexed_label WHERE queue <> ''

-- name: find_newest
-- Finds the newest task of this database that has a term, below an id, or NULL.
-- parameters: 1 term, 2 id.
SELECT MAX(id) FROM lookup WHERE term = ? AND id < ?

-- name: lock_next_label
-- Finds a label whose earlier tasks are not all entered, and locks it until the end of the transaction.
SELECT namespace, queue, label, below_id FROM indexed_label
WHERE below_id IS NOT NULL ORDER BY namespace, queue, label LIMIT 1 FOR UPDATE

-- name: has_incomplete_queue
-- Answers a row if a queue of the namespace has tasks here and its tasks with the label are not all entered.
-- parameters: 1 namespace, 2 namespace, 3 label.
SELECT 1 FROM (
    SELECT queue FROM books WHERE namespace = ? GROUP BY queue HAVING SUM(tasks) <> 0
) AS standing
WHERE standing.queue NOT IN (
    SELECT queue FROM indexed_label WHERE namespace = ? AND label = ? AND below_id IS NULL
)
LIMIT 1

-- name: list_progress
-- Lists how far each label of this database is entered.
SELECT namespace, queue, label, begun_id, below_id FROM indexed_label WHERE queue <> '' ORDER BY namespace, queue, label

-- name: list_earlier
-- Lists the tasks of a queue with labels in a range of ids, after `lock_range`. A bucket that is being dropped counts
-- too: some of its tasks may be put back.
-- parameters: 1 from this id, 2 to this id (inclusive), 3 namespace, 4 queue, 5 the same queue.
SELECT STRAIGHT_JOIN registry.id, registry.partition_no, COALESCE(task.labels, task_gone.labels)
FROM registry FORCE INDEX (registry_newest)
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = registry.partition_no AND moved.id = registry.id
LEFT JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = registry.partition_no AND task.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task.id = registry.id
LEFT JOIN task_gone FORCE INDEX (PRIMARY)
    ON task_gone.partition_no = registry.partition_no AND task_gone.due_at = COALESCE(moved.due_at, registry.due_at)
    AND task_gone.id = registry.id
WHERE registry.id >= ? AND registry.id <= ? AND registry.namespace = ?
    AND (task.queue = ? AND task.labels IS NOT NULL OR task_gone.queue = ? AND task_gone.labels IS NOT NULL)
ORDER BY registry.id LIMIT 1000000

-- name: undeclare_label
-- Stops to enter a label.
-- parameters: 1 namespace, 2 queue, 3 label.
DELETE FROM indexed_label WHERE namespace = ? AND queue = ? AND label = ?

-- name: list_wanted
-- Lists the queues that declare labels, with all their settings (JSON), which the caller reads. In the catalog.
SELECT namespace, queue, body FROM setting WHERE queue <> '' AND INSTR(body, '"indexed_labels":[') > 0

-- name: is_complete
-- Answers a row if all tasks of a queue with the label are entered here.
-- parameters: 1 namespace, 2 queue, 3 label.
SELECT 1 FROM indexed_label WHERE namespace = ? AND queue = ? AND label = ? AND below_id IS NULL
