-- What an engine has counted in a step. 1 step (ms), 2 engine, 3 body (JSON).
REPLACE INTO engine_sample (step_at, engine, body) VALUES (?, ?, ?)
