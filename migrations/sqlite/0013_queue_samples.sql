-- What the engine has counted in a step of time, by queue (JSON).
CREATE TABLE queue_sample (
    step_at INTEGER NOT NULL,
    engine TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (step_at, engine)
) STRICT, WITHOUT ROWID;
