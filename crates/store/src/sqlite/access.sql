-- Tokens.

-- name: list_all
-- Lists all tokens in the order of their ids.
SELECT id, name, reach, secret, previous_secret, previous_until, created_at, created_by, expires_at, rotated_at,
    revoked_at, revoked_by, used_at, revision, required_at
FROM token ORDER BY id

-- name: delete_expired
-- Deletes tokens that were revoked or have expired before an instant.
-- parameters: ?1 before (ms), ?2 how many at most.
DELETE FROM token WHERE id IN (SELECT id FROM token WHERE revoked_at < ?1 OR expires_at < ?1 ORDER BY id LIMIT ?2)

-- name: take_revision
-- Takes the number of the next change of a token.
UPDATE meta SET value = value + 1 WHERE key = 'access_revision' RETURNING value

-- name: save
-- Inserts or updates a token. An update keeps when and by whom it was created, when it was last used, and
-- `required_at`.
-- parameters: ?1 id, ?2 name, ?3 reach (JSON), ?4 secret (hex), ?5 previous secret (hex), ?6 previous secret valid
-- until (ms), ?7 created at (ms), ?8 created by, ?9 expires at (ms), ?10 rotated at (ms), ?11 revoked at (ms),
-- ?12 revoked by, ?13 revision, ?14 required at (ms).
INSERT INTO token (id, name, reach, secret, previous_secret, previous_until, created_at, created_by, expires_at,
    rotated_at, revoked_at, revoked_by, revision, required_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, reach = excluded.reach, secret = excluded.secret,
    previous_secret = excluded.previous_secret, previous_until = excluded.previous_until,
    expires_at = excluded.expires_at, rotated_at = excluded.rotated_at, revoked_at = excluded.revoked_at,
    revoked_by = excluded.revoked_by, revision = excluded.revision

-- name: read_revision
-- Reads the revision of a token.
-- parameters: ?1 id.
SELECT revision FROM token WHERE id = ?1

-- name: record_use
-- Records when a token was last used. An older time changes nothing.
-- parameters: ?1 id, ?2 at (ms).
UPDATE token SET used_at = ?2 WHERE id = ?1 AND (used_at IS NULL OR used_at < ?2)
