-- Marks that were made before an instant, the oldest first. In the catalog. 1 that (ms), 2 slots (bits), 3 limit.
SELECT id, workflow_id FROM workflow_mark FORCE INDEX (workflow_mark_age)
WHERE marked_at < ? AND (? >> slot) & 1 = 1 ORDER BY marked_at, slot LIMIT ?
