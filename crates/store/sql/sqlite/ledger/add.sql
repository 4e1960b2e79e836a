-- Adds to the running account, in the transaction that moves the tasks.
-- ?1 namespace, ?2 queue, ?3 state code, ?4 how many more (or, negative, fewer).
INSERT INTO books (namespace, queue, state, tasks) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (namespace, queue, state) DO UPDATE SET tasks = tasks + excluded.tasks
