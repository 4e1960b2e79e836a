-- Forgets old samples of queues. 1 before this step (ms), 2 how many at most.
DELETE FROM queue_sample WHERE step_at < ? ORDER BY step_at, engine LIMIT ?
