-- Tasks of a queue are among the ids of a chunk. The clock is the database's. For each row: 1 namespace, 2 queue, 3 chunk, 4 kind,
-- 5 slot.
INSERT INTO task_chunk (namespace, queue, chunk, kind, slot, noted_at)
VALUES (?, ?, ?, ?, ?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)
ON DUPLICATE KEY UPDATE noted_at = GREATEST(task_chunk.noted_at, VALUES(noted_at))
