-- Forgets the marks of evaluations of a namespace. There are few marks at any time. 1 namespace, 2 limit.
DELETE FROM evaluation WHERE namespace = ? LIMIT ?
