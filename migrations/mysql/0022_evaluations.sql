-- What engines evaluate: a mark before, removed after. What an engine has left when it died is counted by whoever looks at the
-- same next. The same tables in every database; used in the catalog only. Each statement can be run again.

CREATE TABLE IF NOT EXISTS evaluation (
    -- contract::evaluations::EvaluationKind
    kind INT NOT NULL,
    -- Of the schedule, workflow or bulk operation
    id BIGINT NOT NULL,
    -- As in engine.name: it counts as dead when it gives no sign of life
    engine VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    -- Counted by that engine: it may evaluate the same twice at one time
    turn BIGINT NOT NULL,
    namespace VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    -- For people
    name VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    begun_at BIGINT NOT NULL,
    PRIMARY KEY (kind, id, engine, turn)
) ENGINE = InnoDB;
