-- Spans that it is time to look at, the longest waiting first. 1 now (ms), 2 limit.
SELECT partition_no, due_at, id FROM retention_span FORCE INDEX (retention_span_look)
WHERE look_at <= ? ORDER BY look_at LIMIT ?
