-- Extends a lease that is still held; no move. ?1 id, ?2 fence, ?3 now (ms), ?4 lease_until (ms, already bounded by
-- timeout_ms), ?5 progress (JSON), ?6 executor, ?7 fired_at (ms); each NULL: as it was.
UPDATE task SET lease_until = ?4, progress = coalesce(?5, progress),
    lease_executor = coalesce(?6, lease_executor), fired_at = coalesce(?7, fired_at), updated_at = ?3
WHERE id = ?1 AND fence = ?2 AND lease_until > ?3 AND state IN (4, 5)
