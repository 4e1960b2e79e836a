-- What engines have counted of queues. ?1 from this step on (ms), ?2 limit.
SELECT step_at, engine, body FROM queue_sample WHERE step_at >= ?1 ORDER BY step_at, engine LIMIT ?2
