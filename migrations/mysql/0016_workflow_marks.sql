-- Notes that something of a workflow may have ended, for whoever is left when the engine that made them is not. The same table in
-- every database; used in the catalog only. Each statement can be run again.

CREATE TABLE IF NOT EXISTS workflow_mark (
    -- Drawn by the engine that makes it
    id BIGINT NOT NULL,
    workflow_id BIGINT NOT NULL,
    -- What engines share
    slot INT NOT NULL,
    marked_at BIGINT NOT NULL,
    PRIMARY KEY (id),
    KEY workflow_mark_age (marked_at, slot)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
