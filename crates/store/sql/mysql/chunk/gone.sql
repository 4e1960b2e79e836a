-- Chunks of a queue that have no task any more, and that no writer remembers. 1 namespace, 2 queue, 3 above this chunk, 4 up to this
-- chunk, 5 noted so long ago (ms); the clock is the database's.
DELETE FROM task_chunk
WHERE namespace = ? AND queue = ? AND chunk > ? AND chunk <= ? AND noted_at < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 - ?
    AND NOT EXISTS (
        SELECT 1 FROM registry FORCE INDEX (registry_newest)
        WHERE registry.id >= task_chunk.chunk * 1024 AND registry.id < task_chunk.chunk * 1024 + 1024
    )
