-- Tokens, and the audit. The same tables in every database; used in the catalog only. Instants are UTC epoch
-- milliseconds. Each statement can be run again.

-- Who may call. A row is never deleted: that there was one means that access is configured.
CREATE TABLE IF NOT EXISTS token (
    id VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    name TEXT NOT NULL,
    -- JSON: roles, namespaces, queues, see domain::access
    reach MEDIUMTEXT NOT NULL,
    -- BLAKE3 of the whole token, in hex
    secret VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- The one before, good until then; NULL: there is none
    previous_secret VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    previous_until BIGINT,
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    -- NULL: never
    expires_at BIGINT,
    rotated_at BIGINT,
    revoked_at BIGINT,
    revoked_by TEXT,
    used_at BIGINT,
    -- Of the change that made it so: grows with every change of any token.
    revision BIGINT NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
INSERT IGNORE INTO meta (name, value) VALUES ('access_revision', 0);

-- Who changed what. A row is appended before the change, and completed with its result after it, once.
CREATE TABLE IF NOT EXISTS audit (
    id BIGINT NOT NULL AUTO_INCREMENT,
    at BIGINT NOT NULL,
    -- NULL: no token was asked for, or none was good
    token_id VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
    caller TEXT NOT NULL,
    address VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    action VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    request TEXT NOT NULL,
    -- NULL: of none
    namespace VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin,
    request_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
    -- How many alike it stands for
    times BIGINT NOT NULL,
    -- NULL: not known (yet)
    status INT,
    completed_at BIGINT,
    reason TEXT,
    -- JSON: as it stood and as it stands
    before_json MEDIUMTEXT,
    after_json MEDIUMTEXT,
    PRIMARY KEY (id),
    KEY audit_at (at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
