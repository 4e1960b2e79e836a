-- Notes that something of a workflow may have ended, for whoever is left when the engine that made them is not.

CREATE TABLE workflow_mark (
    -- Drawn by the engine that makes it
    id INTEGER NOT NULL PRIMARY KEY,
    workflow_id INTEGER NOT NULL,
    -- What engines share
    slot INTEGER NOT NULL,
    marked_at INTEGER NOT NULL
) STRICT;
CREATE INDEX workflow_mark_age ON workflow_mark (marked_at, slot);
