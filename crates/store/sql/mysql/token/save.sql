-- Adds or changes a token; when and by whom it was made, when it was used and from when on one is required stays. 1 id, 2 name, 3 reach (JSON),
-- 4 secret (hex), 5 previous secret (hex), 6 good until (ms), 7 created at (ms), 8 by whom, 9 expires at (ms),
-- 10 rotated at (ms), 11 revoked at (ms), 12 by whom, 13 revision, 14 required at (ms).
INSERT INTO token (id, name, reach, secret, previous_secret, previous_until, created_at, created_by, expires_at,
    rotated_at, revoked_at, revoked_by, revision, required_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE name = VALUES(name), reach = VALUES(reach), secret = VALUES(secret),
    previous_secret = VALUES(previous_secret), previous_until = VALUES(previous_until),
    expires_at = VALUES(expires_at), rotated_at = VALUES(rotated_at), revoked_at = VALUES(revoked_at),
    revoked_by = VALUES(revoked_by), revision = VALUES(revision)
