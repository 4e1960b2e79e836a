-- The account of a partition comes or goes, with its rows. The slot is one that no writer has.
-- 1 and 2 one or minus one, 3 partition.
INSERT INTO books (slot, namespace, queue, state, tasks, bytes)
SELECT -2, namespace, queue, state, ? * tasks, ? * bytes FROM taken_along WHERE partition_no = ?
ON DUPLICATE KEY UPDATE tasks = books.tasks + VALUES(tasks), bytes = books.bytes + VALUES(bytes)
