-- Forgets old samples. 1 before this step (ms), 2 how many at most.
DELETE FROM engine_sample WHERE step_at < ? ORDER BY step_at, engine LIMIT ?
