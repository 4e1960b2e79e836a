-- Forgets the executors of a namespace. ?1 namespace, ?2 limit.
DELETE FROM executor WHERE namespace = ?1 AND name IN (SELECT name FROM executor WHERE namespace = ?1 LIMIT ?2)
