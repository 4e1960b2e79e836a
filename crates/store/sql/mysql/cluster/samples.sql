-- What engines have counted. 1 from this step on (ms), 2 limit.
SELECT step_at, engine, body FROM engine_sample WHERE step_at >= ? ORDER BY step_at, engine LIMIT ?
