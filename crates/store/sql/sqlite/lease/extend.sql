-- Extends a lease that is still held; no move. ?1 id, ?2 fence, ?3 now (ms), ?4 lease_until (ms, already bounded by
-- timeout_ms), ?5 progress (JSON) or NULL (as it was).
UPDATE task SET lease_until = ?4, progress = coalesce(?5, progress), updated_at = ?3
WHERE id = ?1 AND fence = ?2 AND lease_until > ?3 AND state IN (4, 5)
