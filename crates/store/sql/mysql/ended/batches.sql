-- Batches with leases that may have ended, the longest ended first.
-- 1 from this end (ms), 2 now (ms), 3 after this end (ms) or 4 after this batch, 5 limit.
SELECT batch_id, lease_until, entries FROM lease_batch
WHERE lease_until BETWEEN ? AND ? AND (lease_until > ? OR batch_id > ?)
ORDER BY lease_until, batch_id LIMIT ?
