-- Tokens, and the audit. Instants are UTC epoch milliseconds.

-- Who may call. A row is never deleted: that there was one means that access is configured.
CREATE TABLE token (
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    -- JSON: roles, namespaces, queues, see domain::access
    reach TEXT NOT NULL,
    -- BLAKE3 of the whole token, in hex
    secret TEXT NOT NULL,
    -- The one before, good until then; NULL: there is none
    previous_secret TEXT,
    previous_until INTEGER,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    -- NULL: never
    expires_at INTEGER,
    rotated_at INTEGER,
    revoked_at INTEGER,
    revoked_by TEXT,
    used_at INTEGER,
    -- Of the change that made it so: grows with every change of any token.
    revision INTEGER NOT NULL,
    PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;
INSERT INTO meta (key, value) VALUES ('access_revision', 0);

-- Who changed what. A row is appended before the change, and completed with its result after it, once.
CREATE TABLE audit (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    -- NULL: no token was asked for, or none was good
    token_id TEXT,
    caller TEXT NOT NULL,
    address TEXT,
    action TEXT NOT NULL,
    request TEXT NOT NULL,
    -- NULL: of none
    namespace TEXT,
    request_id TEXT,
    -- How many alike it stands for
    times INTEGER NOT NULL,
    -- NULL: not known (yet)
    status INTEGER,
    completed_at INTEGER,
    reason TEXT,
    -- JSON: as it stood and as it stands
    before_json TEXT,
    after_json TEXT
) STRICT;
CREATE INDEX audit_at ON audit (at);
