-- The last report of a count of all rows of each database, and requests for one. The same tables in every database; used in the
-- catalog only. Then, in every database, how many tasks of each partition it has deleted since this migration, by writer
-- slot as in `counters`. Each statement can be run again.

CREATE TABLE IF NOT EXISTS ledger_report (
    part INT NOT NULL,
    -- How often a count was requested, and how many of the requests the report answers
    requests BIGINT NOT NULL,
    answered BIGINT NOT NULL,
    -- JSON, see cluster::ledger; NULL: it was never counted
    body MEDIUMTEXT,
    PRIMARY KEY (part)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS deleted_tasks (
    partition_no INT NOT NULL,
    slot INT NOT NULL,
    tasks BIGINT NOT NULL,
    PRIMARY KEY (partition_no, slot)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
