-- What an operator asks of the whole cluster. The same tables in every database; used in the catalog only. Instants are UTC
-- epoch milliseconds. Each statement can be run again.

-- What happened: see domain::event. Bounded in time and number by the engine whose duty it is.
CREATE TABLE IF NOT EXISTS event (
    id BIGINT NOT NULL AUTO_INCREMENT,
    at BIGINT NOT NULL,
    kind VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- What happened once is one row, whoever has noticed it
    event_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    engine VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    text TEXT NOT NULL,
    -- A JSON object
    details MEDIUMTEXT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY event_once (event_key),
    KEY event_at (at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What each engine has counted in a step of time (JSON).
CREATE TABLE IF NOT EXISTS engine_sample (
    step_at BIGINT NOT NULL,
    engine VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (step_at, engine)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
