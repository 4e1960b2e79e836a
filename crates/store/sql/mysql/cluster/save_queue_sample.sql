-- What an engine has counted of queues in a step. 1 step (ms), 2 engine, 3 body (JSON).
REPLACE INTO queue_sample (step_at, engine, body) VALUES (?, ?, ?)
