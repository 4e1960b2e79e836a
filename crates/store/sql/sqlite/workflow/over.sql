-- Workflows that ended before an instant. ?1 that (ms), ?2 limit.
SELECT id, definition_id FROM workflow WHERE finished_at < ?1 ORDER BY finished_at LIMIT ?2
