-- Rows of chunks of a queue that have no tasks any more, of those that no writer remembers. Whether they have some, the caller has looked:
-- a writer that stores one now enters the row anew. 1 namespace, 2 queue, 3 above this chunk, 4 below this chunk, 5 noted so long ago
-- (ms), 6 limit; the clock is the database's.
DELETE FROM task_chunk
WHERE namespace = ? AND queue = ? AND chunk > ? AND chunk < ?
    AND noted_at < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 - ?
ORDER BY namespace, queue, chunk, kind, slot LIMIT ?
