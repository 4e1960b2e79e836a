-- Tasks of a queue are among the ids of a chunk. ?1 namespace, ?2 queue, ?3 chunk, ?4 kind.
INSERT OR IGNORE INTO task_chunk (namespace, queue, chunk, kind) VALUES (?1, ?2, ?3, ?4)
