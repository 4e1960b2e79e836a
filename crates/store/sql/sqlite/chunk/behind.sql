-- Rows of a chunk (id / 1024) without tasks, when the next chunk is begun: the trigger leaves those of the chunk that gets new tasks.
-- ?1 chunk.
DELETE FROM task_chunk
WHERE chunk = ?1 AND NOT EXISTS (SELECT 1 FROM task WHERE id >= ?1 * 1024 AND id < ?1 * 1024 + 1024)
