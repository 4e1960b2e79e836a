-- Sets what a scope has. 1 namespace, 2 queue, 3 revision, 4 body (JSON), 5 paused (0 or 1), 6 now (ms), 7 by whom.
INSERT INTO setting (namespace, queue, revision, body, paused, updated_at, updated_by)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE revision = VALUES(revision), body = VALUES(body), paused = VALUES(paused),
    updated_at = VALUES(updated_at), updated_by = VALUES(updated_by)
