-- What is counted of queues: the same table in every database, used in the catalog's. Can be run again.

-- What each engine has counted in a step of time, by queue (JSON).
CREATE TABLE IF NOT EXISTS queue_sample (
    step_at BIGINT NOT NULL,
    engine VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    body MEDIUMTEXT NOT NULL,
    PRIMARY KEY (step_at, engine)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
