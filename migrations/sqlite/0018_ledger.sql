-- The register: which ids have a row, written in the transactions that create and delete rows, so that a count finds and names a
-- row that went in another way. A bit for each of 32 ids; what has no row here has no task.
CREATE TABLE registered (
    -- id >> 5
    ids_of INTEGER NOT NULL PRIMARY KEY,
    -- Bit n: the id ids_of * 32 + n
    bits INTEGER NOT NULL
) STRICT;
INSERT INTO registered (ids_of, bits) SELECT id >> 5, sum(1 << (id & 31)) FROM task GROUP BY id >> 5;

-- The account by partition: tasks accepted and deleted since this migration, with those that had rows then.
CREATE TABLE partition_account (
    partition INTEGER NOT NULL PRIMARY KEY,
    accepted INTEGER NOT NULL,
    deleted INTEGER NOT NULL
) STRICT;
INSERT INTO partition_account (partition, accepted, deleted) SELECT partition, count(*), 0 FROM task GROUP BY partition;

-- The last report of a count of all rows, and requests for one.
CREATE TABLE ledger_report (
    part INTEGER NOT NULL PRIMARY KEY,
    -- How often a count was requested, and how many of the requests the report answers
    requests INTEGER NOT NULL,
    answered INTEGER NOT NULL,
    -- JSON, see cluster::ledger; NULL: it was never counted
    body TEXT
) STRICT;
