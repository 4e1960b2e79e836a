-- The newest chunks that may have tasks of a queue, down from one. ?1 namespace, ?2 queue (empty: the namespace as a whole; '*':
-- where any queue may have some), ?3 chunk, ?4 kind (NULL: any), ?5 limit.
SELECT DISTINCT chunk FROM task_chunk
WHERE namespace = ?1 AND queue = ?2 AND chunk <= ?3 AND (?4 IS NULL OR kind = ?4)
ORDER BY chunk DESC LIMIT ?5
