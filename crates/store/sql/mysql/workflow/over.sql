-- Workflows that ended before an instant. In the catalog. 1 that (ms), 2 limit.
SELECT id, definition_id FROM workflow WHERE finished_at < ? ORDER BY finished_at LIMIT ?
