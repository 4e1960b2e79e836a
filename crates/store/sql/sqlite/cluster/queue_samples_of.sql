-- The same of one queue, as a sample is written (cluster: `Told`). ?1 the path of its counts in a body, ?2 from this step on (ms), ?3 limit.
SELECT step_at, engine,
    '{"started_ms":' || json_extract(body, '$.started_ms') || ',"until_ms":' || json_extract(body, '$.until_ms') ||
        ',"counts":' || COALESCE(json_extract(body, ?1), '{}') || '}'
FROM queue_sample WHERE step_at >= ?2 ORDER BY step_at, engine LIMIT ?3
