-- Forgets old samples of queues. ?1 before this step (ms).
DELETE FROM queue_sample WHERE step_at < ?1
