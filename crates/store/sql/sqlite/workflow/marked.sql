-- Marks that were made before an instant, the oldest first. ?1 slots (bits), ?2 that (ms), ?3 limit.
SELECT id, workflow_id FROM workflow_mark WHERE marked_at < ?2 AND (?1 >> slot) & 1 = 1 ORDER BY marked_at, slot LIMIT ?3
