-- Ids of runs and of nodes of workflows follow from a secret.

-- One row, made when it is first asked for.
CREATE TABLE identity_secret (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    secret BLOB NOT NULL
) STRICT;

-- Of the run's task. NULL: decided before this migration; the name of the task follows from the revision, without a secret.
ALTER TABLE schedule_run ADD COLUMN version INTEGER;
