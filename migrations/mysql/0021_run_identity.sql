-- Ids of runs and of nodes of workflows follow from a secret. The same tables in every database; used in the catalog only. Each
-- statement can be run again.

-- One row, made when it is first asked for.
CREATE TABLE IF NOT EXISTS identity_secret (
    id INT NOT NULL,
    secret BINARY(32) NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB;

-- Of the run's task. NULL: decided before this migration; the name of the task follows from the revision, without a secret.
SET @alter_run = IF((
    SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'schedule_run' AND column_name = 'version') = 0,
    'ALTER TABLE schedule_run ADD COLUMN version BIGINT NULL', 'DO 0');
PREPARE alter_run FROM @alter_run;
EXECUTE alter_run;
DEALLOCATE PREPARE alter_run;
