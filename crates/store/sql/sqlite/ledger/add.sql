-- Adds to the running account, in the transaction that moves the tasks.
-- ?1 namespace, ?2 queue, ?3 state code, ?4 how many more (or, negative, fewer), ?5 bytes of payloads that wait.
INSERT INTO books (namespace, queue, state, tasks, bytes) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (namespace, queue, state) DO UPDATE SET tasks = tasks + excluded.tasks, bytes = bytes + excluded.bytes
