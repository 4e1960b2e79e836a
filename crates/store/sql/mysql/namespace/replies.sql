-- Forgets answers that are kept under the idempotency keys of a namespace. 1 namespace, 2 limit.
DELETE FROM reply WHERE namespace = ? ORDER BY namespace, reply_key LIMIT ?
