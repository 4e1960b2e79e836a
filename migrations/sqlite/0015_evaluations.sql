-- What engines evaluate: a mark before, removed after. What an engine has left when it died is counted by whoever looks at the
-- same next.

CREATE TABLE evaluation (
    -- contract::evaluations::EvaluationKind
    kind INTEGER NOT NULL,
    -- Of the schedule, workflow or bulk operation
    id INTEGER NOT NULL,
    -- Another one each time a process starts: all but the one that asks are dead
    engine TEXT NOT NULL,
    -- Counted by that engine: it may evaluate the same twice at one time
    turn INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    -- For people
    name TEXT NOT NULL,
    begun_at INTEGER NOT NULL,
    PRIMARY KEY (kind, id, engine, turn)
) STRICT, WITHOUT ROWID;
