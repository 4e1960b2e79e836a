-- A lease that is still held. ?1 id, ?2 fence, ?3 now (ms). No row: it is lost.
SELECT namespace, queue, state, lease_since, timeout_ms, cancel_requested, lease_until FROM task
WHERE id = ?1 AND fence = ?2 AND lease_until > ?3 AND state IN (4, 5)
