-- The last report of a count of all rows of each database, and requests for one. The same tables in every database; used in the
-- catalog only. Each statement can be run again.

CREATE TABLE IF NOT EXISTS ledger_report (
    part INT NOT NULL,
    -- How often a count was requested, and how many of the requests the report answers
    requests BIGINT NOT NULL,
    answered BIGINT NOT NULL,
    -- JSON, see cluster::ledger; NULL: it was never counted
    body MEDIUMTEXT,
    PRIMARY KEY (part)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
