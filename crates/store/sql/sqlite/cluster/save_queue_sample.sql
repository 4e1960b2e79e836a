-- What an engine has counted of queues in a step. ?1 step (ms), ?2 engine, ?3 body (JSON).
INSERT OR REPLACE INTO queue_sample (step_at, engine, body) VALUES (?1, ?2, ?3)
