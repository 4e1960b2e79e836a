-- Adds or changes a token; when and by whom it was made, when it was used and from when on one is required stays. ?1 id, ?2 name, ?3 reach (JSON),
-- ?4 secret (hex), ?5 previous secret (hex), ?6 good until (ms), ?7 created at (ms), ?8 by whom, ?9 expires at (ms),
-- ?10 rotated at (ms), ?11 revoked at (ms), ?12 by whom, ?13 revision, ?14 required at (ms).
INSERT INTO token (id, name, reach, secret, previous_secret, previous_until, created_at, created_by, expires_at,
    rotated_at, revoked_at, revoked_by, revision, required_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, reach = excluded.reach, secret = excluded.secret,
    previous_secret = excluded.previous_secret, previous_until = excluded.previous_until,
    expires_at = excluded.expires_at, rotated_at = excluded.rotated_at, revoked_at = excluded.revoked_at,
    revoked_by = excluded.revoked_by, revision = excluded.revision
