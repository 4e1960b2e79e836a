-- Forgets the executors of a namespace. ?1 namespace, ?2 limit.
DELETE FROM executor WHERE (namespace, name) IN (SELECT namespace, name FROM executor WHERE namespace = ?1 LIMIT ?2)
