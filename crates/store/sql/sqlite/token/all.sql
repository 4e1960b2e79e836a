-- All tokens, by id.
SELECT id, name, reach, secret, previous_secret, previous_until, created_at, created_by, expires_at, rotated_at,
    revoked_at, revoked_by, used_at, revision, required_at
FROM token ORDER BY id
