-- Tokens, in the catalog.

-- name: list_all
-- Lists all tokens in the order of their ids. In the catalog.
SELECT id, name, reach, secret, previous_secret, previous_until, created_at, created_by, expires_at, rotated_at,
    revoked_at, revoked_by, used_at, revision, required_at
FROM token ORDER BY id

-- name: delete_expired
-- Deletes tokens that were revoked or have expired before an instant. In the catalog.
-- parameters: 1 before (ms), 2 before (ms), 3 how many at most.
DELETE FROM token WHERE revoked_at < ? OR expires_at < ? ORDER BY id LIMIT ?

-- name: save
-- Inserts or updates a token. An update keeps when and by whom it was created, when it was last used, and
-- `required_at`.
-- parameters: 1 id, 2 name, 3 reach (JSON), 4 secret (hex), 5 previous secret (hex), 6 previous secret valid until
-- (ms), 7 created at (ms), 8 created by, 9 expires at (ms), 10 rotated at (ms), 11 revoked at (ms), 12 revoked by,
-- 13 revision, 14 required at (ms).
INSERT INTO token (id, name, reach, secret, previous_secret, previous_until, created_at, created_by, expires_at,
    rotated_at, revoked_at, revoked_by, revision, required_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE name = VALUES(name), reach = VALUES(reach), secret = VALUES(secret),
    previous_secret = VALUES(previous_secret), previous_until = VALUES(previous_until),
    expires_at = VALUES(expires_at), rotated_at = VALUES(rotated_at), revoked_at = VALUES(revoked_at),
    revoked_by = VALUES(revoked_by), revision = VALUES(revision)

-- name: read_revision
-- Reads the revision of a token.
-- parameters: 1 id.
SELECT revision FROM token WHERE id = ?

-- name: record_use
-- Records when a token was last used. An older time changes nothing.
-- parameters: 1 at (ms), 2 id, 3 at (ms).
UPDATE token SET used_at = ? WHERE id = ? AND (used_at IS NULL OR used_at < ?)
