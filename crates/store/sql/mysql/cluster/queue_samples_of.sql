-- The same of one queue, as a sample is written (cluster: `Told`). 1 the path of its counts in a body, 2 from this step on (ms), 3 limit.
SELECT step_at, engine,
    CONCAT('{"started_ms":', JSON_EXTRACT(body, '$.started_ms'), ',"until_ms":', JSON_EXTRACT(body, '$.until_ms'),
        ',"counts":', COALESCE(JSON_EXTRACT(body, ?), '{}'), '}')
FROM queue_sample WHERE step_at >= ? ORDER BY step_at, engine LIMIT ?
