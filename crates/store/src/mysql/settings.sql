-- Settings of namespaces and queues, in the catalog, and the paused queues that each database knows.

-- name: insert_paused
-- Inserts paused queues.
-- parameters: of each row: 1 namespace, 2 queue.
-- holes: {rows} repeated for each row.
INSERT INTO paused_queue (namespace, queue)
VALUES {rows: (?, ?)}

-- name: delete_paused
-- Deletes all paused queues, before the present ones are inserted.
DELETE FROM paused_queue

-- name: hold_pause_epoch
-- Reads the revision of the pauses that this database applies, and holds it (shared) to the end of a transaction that
-- hands tasks over: a later pause waits for it, and a transaction after that pause sees another epoch.
SELECT value AS pause_epoch FROM meta WHERE name = 'pause_epoch' LOCK IN SHARE MODE

-- name: lock_pauses_revision
-- Locks the revision of the pauses: the paused queues are read before it changes. In the catalog.
SELECT value FROM meta WHERE name = 'pauses_revision' FOR UPDATE

-- name: list_paused
-- Lists the paused queues, as of the epoch that this transaction holds.
SELECT namespace, queue FROM paused_queue

-- name: advance_pause_epoch
-- Applies a later revision of the pauses; waits for hand-overs under way. No row: it is applied already.
-- parameters: 1 and 2 revision.
UPDATE meta SET value = ? WHERE name = 'pause_epoch' AND value < ?

-- name: list_wanted_pauses
-- Lists the queues from which nothing should start. In the catalog.
SELECT namespace, queue FROM setting WHERE paused = 1

-- name: list_all
-- Lists all settings. In the catalog.
SELECT namespace, queue, revision, body, updated_at, updated_by FROM setting ORDER BY namespace, queue

-- name: list_changes
-- Lists the changes of a scope, the newest first.
-- parameters: 1 namespace, 2 queue, 3 below this revision, 4 limit.
SELECT revision, body, changed_at, changed_by FROM setting_change
WHERE namespace = ? AND queue = ? AND revision < ? ORDER BY revision DESC LIMIT ?

-- name: record_change
-- Records a change.
-- parameters: 1 revision, 2 namespace, 3 queue, 4 body (JSON, NULL: removed), 5 now (ms), 6 changed by.
INSERT INTO setting_change (revision, namespace, queue, body, changed_at, changed_by) VALUES (?, ?, ?, ?, ?, ?)

-- name: delete
-- Deletes the settings of a scope.
-- parameters: 1 namespace, 2 queue.
DELETE FROM setting WHERE namespace = ? AND queue = ?

-- name: save
-- Saves the settings of a scope.
-- parameters: 1 namespace, 2 queue, 3 revision, 4 body (JSON), 5 paused (0 or 1), 6 now (ms), 7 updated by.
INSERT INTO setting (namespace, queue, revision, body, paused, updated_at, updated_by)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE revision = VALUES(revision), body = VALUES(body), paused = VALUES(paused),
    updated_at = VALUES(updated_at), updated_by = VALUES(updated_by)

-- name: read
-- Reads the settings of a scope.
-- parameters: 1 namespace, 2 queue (empty: none).
SELECT revision, paused, body FROM setting WHERE namespace = ? AND queue = ?
