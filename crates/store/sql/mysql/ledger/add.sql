-- Adds to the running account, in the transaction that moves the tasks. For each row: 1 slot, 2 namespace, 3 queue,
-- 4 state code, 5 how many more (or, negative, fewer), 6 bytes of payloads that wait.
INSERT INTO books (slot, namespace, queue, state, tasks, bytes)
VALUES (?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE tasks = tasks + VALUES(tasks), bytes = bytes + VALUES(bytes)
