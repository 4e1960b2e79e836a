-- Forgets the executors of a namespace. 1 namespace, 2 limit.
DELETE FROM executor WHERE namespace = ? ORDER BY namespace, name LIMIT ?
