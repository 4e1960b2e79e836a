-- Forgets answers that are kept under the idempotency keys of a namespace. ?1 namespace, ?2 limit.
DELETE FROM reply WHERE namespace = ?1 AND key IN (SELECT key FROM reply WHERE namespace = ?1 LIMIT ?2)
