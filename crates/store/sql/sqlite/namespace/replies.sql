-- Forgets answers that are kept under the idempotency keys of a namespace. ?1 namespace, ?2 limit.
DELETE FROM reply WHERE (namespace, key) IN (SELECT namespace, key FROM reply WHERE namespace = ?1 LIMIT ?2)
