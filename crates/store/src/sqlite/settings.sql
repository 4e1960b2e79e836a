-- Settings of namespaces and queues.

-- name: list_all
-- Lists all settings.
SELECT namespace, queue, revision, body, updated_at, updated_by FROM setting ORDER BY namespace, queue

-- name: list_changes
-- Lists the changes of a scope, the newest first.
-- parameters: ?1 namespace, ?2 queue, ?3 below this revision, ?4 limit.
SELECT revision, body, changed_at, changed_by FROM setting_change
WHERE namespace = ?1 AND queue = ?2 AND revision < ?3 ORDER BY revision DESC LIMIT ?4

-- name: take_revision
-- Takes the number of the next change.
UPDATE meta SET value = value + 1 WHERE key = 'settings_revision' RETURNING value

-- name: list_paused
-- Lists the paused queues.
SELECT namespace, queue FROM setting WHERE paused = 1

-- name: record_change
-- Records a change.
-- parameters: ?1 revision, ?2 namespace, ?3 queue, ?4 body (JSON, NULL: removed), ?5 now (ms), ?6 changed by.
INSERT INTO setting_change (revision, namespace, queue, body, changed_at, changed_by) VALUES (?1, ?2, ?3, ?4, ?5, ?6)

-- name: delete
-- Deletes the settings of a scope.
-- parameters: ?1 namespace, ?2 queue.
DELETE FROM setting WHERE namespace = ?1 AND queue = ?2

-- name: save
-- Saves the settings of a scope.
-- parameters: ?1 namespace, ?2 queue, ?3 revision, ?4 body (JSON), ?5 paused (0 or 1), ?6 now (ms), ?7 updated by.
INSERT OR REPLACE INTO setting (namespace, queue, revision, body, paused, updated_at, updated_by)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)

-- name: read_revision
-- Reads the revision of the settings of a scope.
-- parameters: ?1 namespace, ?2 queue (empty: none).
SELECT revision FROM setting WHERE namespace = ?1 AND queue = ?2
