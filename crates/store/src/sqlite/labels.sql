-- Where tasks can be looked up: by declared labels (`task_label`), by state (dead ones), and by chunks of ids of a
-- queue (`task_chunk`).

-- name: advance_chunks
-- Saves that tasks below an id are not entered in chunks yet; 0: all are.
-- parameters: ?1 id.
UPDATE meta SET value = ?1 WHERE key = 'chunks_below'

-- name: delete_empty_chunk
-- Deletes the rows of a chunk (id / 1024) without tasks, when the next chunk is begun. The trigger leaves the rows of
-- the chunk that gets new tasks.
-- parameters: ?1 chunk.
DELETE FROM task_chunk
WHERE chunk = ?1 AND NOT EXISTS (SELECT 1 FROM task WHERE id >= ?1 * 1024 AND id < ?1 * 1024 + 1024)

-- name: insert_chunk
-- Notes that tasks of a queue have ids in a chunk.
-- parameters: ?1 namespace, ?2 queue, ?3 chunk, ?4 kind.
INSERT OR IGNORE INTO task_chunk (namespace, queue, chunk, kind) VALUES (?1, ?2, ?3, ?4)

-- name: list_newest_chunks
-- Lists the newest chunks that may have tasks of a queue, down from one chunk.
-- parameters: ?1 namespace, ?2 queue (empty: the whole namespace; '*': any queue may have tasks there), ?3 chunk,
-- ?4 kind (NULL: any), ?5 limit.
SELECT DISTINCT chunk FROM task_chunk
WHERE namespace = ?1 AND queue = ?2 AND chunk <= ?3 AND (?4 IS NULL OR kind = ?4)
ORDER BY chunk DESC LIMIT ?5

-- name: enter_earlier_chunks
-- Enters the chunks (id / 1024) of tasks that were inserted before chunks were entered.
-- parameters: ?1 from this id, ?2 to this id (inclusive).
INSERT OR IGNORE INTO task_chunk (namespace, queue, chunk, kind)
SELECT namespace, queue, id / 1024, kind FROM task WHERE id BETWEEN ?1 AND ?2
UNION ALL SELECT namespace, '', id / 1024, '' FROM task WHERE id BETWEEN ?1 AND ?2

-- name: advance_label
-- Saves how far the earlier tasks of a label are entered.
-- parameters: ?1 tasks below this id are not entered yet (NULL: all are), ?2 namespace, ?3 queue, ?4 label.
UPDATE indexed_label SET below_id = ?1 WHERE namespace = ?2 AND queue = ?3 AND label = ?4

-- name: find_dead_bound
-- Finds how far one search among dead tasks goes: the id after a number of them; no row: to the end.
-- parameters: ?1 namespace, ?2 below this id, ?3 tasks to skip.
SELECT id FROM task WHERE state = 9 AND namespace = ?1 AND id < ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3

-- name: find_newest_dead
-- Finds the newest dead task of a namespace below an id, or NULL.
-- parameters: ?1 namespace, ?2 id.
SELECT max(id) FROM task WHERE state = 9 AND namespace = ?1 AND id < ?2

-- name: declare_label
-- Declares a label: tasks that are inserted from now on are entered, and earlier ones have ids below the next one. A
-- declared label stays as it is.
-- parameters: ?1 namespace, ?2 queue, ?3 label.
INSERT OR IGNORE INTO indexed_label (namespace, queue, label, begun_id, below_id)
VALUES (?1, ?2, ?3, coalesce((SELECT max(id) FROM task), 0) + 1, (SELECT max(id) FROM task) + 1)

-- name: enter_earlier
-- Enters tasks that were inserted before their label was declared. Along the ids: the index of callers' ids begins
-- with the namespace and would be read from end to end.
-- parameters: ?1 from this id, ?2 to this id (inclusive), ?3 namespace, ?4 queue, ?5 label.
INSERT OR IGNORE INTO task_label (namespace, label, id)
SELECT task.namespace, it.key || '=' || it.value, task.id
FROM task CROSS JOIN json_each(task.labels) AS it
WHERE task.id >= ?1 AND task.id <= ?2 AND +task.namespace = ?3 AND task.queue = ?4 AND task.labels IS NOT NULL AND it.key = ?5

-- name: find_label_bound
-- Finds how far one search among the tasks of a label goes: the id after a number of entries; no row: to the end.
-- parameters: ?1 namespace, ?2 label (key=value), ?3 below this id, ?4 entries to skip.
SELECT id FROM task_label WHERE namespace = ?1 AND label = ?2 AND id < ?3 ORDER BY id DESC LIMIT 1 OFFSET ?4

-- name: find_newest
-- Finds the newest task that has a label, below an id, or NULL.
-- parameters: ?1 namespace, ?2 label (key=value), ?3 id.
SELECT max(id) FROM task_label WHERE namespace = ?1 AND label = ?2 AND id < ?3

-- name: has_incomplete_queue
-- Answers a row if a queue of the namespace has tasks and its tasks with the label are not all entered.
-- parameters: ?1 namespace, ?2 label.
SELECT 1 FROM books WHERE namespace = ?1 AND tasks <> 0 AND NOT EXISTS (
    SELECT 1 FROM indexed_label
    WHERE indexed_label.namespace = ?1 AND indexed_label.queue = books.queue AND label = ?2 AND below_id IS NULL
) LIMIT 1

-- name: list_of_queue
-- Lists the labels that are declared for a queue.
-- parameters: ?1 namespace, ?2 queue.
SELECT label FROM indexed_label WHERE namespace = ?1 AND queue = ?2

-- name: list_progress
-- Lists how far each label is entered.
SELECT namespace, queue, label, begun_id, below_id FROM indexed_label ORDER BY namespace, queue, label

-- name: undeclare_label
-- Stops to enter a label.
-- parameters: ?1 namespace, ?2 queue, ?3 label.
DELETE FROM indexed_label WHERE namespace = ?1 AND queue = ?2 AND label = ?3

-- name: is_complete
-- Answers a row if all tasks of a queue with the label are entered.
-- parameters: ?1 namespace, ?2 queue, ?3 label.
SELECT 1 FROM indexed_label WHERE namespace = ?1 AND queue = ?2 AND label = ?3 AND below_id IS NULL
