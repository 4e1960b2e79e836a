-- Forgets old samples. ?1 before this step (ms).
DELETE FROM engine_sample WHERE step_at < ?1
