-- What an operator asks of the cluster, which is one engine here. Instants are UTC epoch milliseconds.

-- What happened: see domain::event. Bounded in time and number.
CREATE TABLE event (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    -- What happened once is one row, whoever has noticed it
    event_key TEXT NOT NULL,
    engine TEXT,
    text TEXT NOT NULL,
    -- A JSON object
    details TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX event_once ON event (event_key);
CREATE INDEX event_at ON event (at);

-- What an engine has counted in a step of time (JSON).
CREATE TABLE engine_sample (
    step_at INTEGER NOT NULL,
    engine TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (step_at, engine)
) STRICT, WITHOUT ROWID;
