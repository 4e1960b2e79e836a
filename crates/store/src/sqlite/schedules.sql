-- Schedules and their runs, and the secret that keys their identities.

-- name: offer_secret
-- Stores a secret, unless there is one.
-- parameters: ?1 the secret.
INSERT INTO identity_secret (id, secret) VALUES (1, ?1) ON CONFLICT (id) DO NOTHING

-- name: read_secret
-- Reads the secret that was offered first.
SELECT secret FROM identity_secret WHERE id = 1

-- name: advance
-- Advances a schedule if its step is the expected one.
-- parameters: ?1 id, ?2 expected step, ?3 progress (JSON), ?4 wake_at (ms, NULL: never).
UPDATE schedule SET step = step + 1, progress = ?3, wake_at = ?4 WHERE id = ?1 AND step = ?2

-- name: create
-- Inserts a schedule, unless its name is taken.
-- parameters: ?1 namespace, ?2 name, ?3 slot, ?4 revision, ?5 body (JSON), ?6 progress (JSON), ?7 wake_at (ms, NULL:
-- never), ?8 now (ms), ?9 created by.
INSERT INTO schedule (namespace, name, slot, revision, step, body, progress, wake_at, created_at, updated_at, updated_by)
VALUES (?1, ?2, ?3, ?4, 1, ?5, ?6, ?7, ?8, ?8, ?9)
ON CONFLICT (namespace, name) DO NOTHING

-- name: list_due
-- Lists schedules whose wake_at has come, the longest overdue first.
-- parameters: ?1 slots (bits), ?2 now (ms), ?3 limit.
SELECT id, namespace, name, revision, step, body, progress, wake_at, created_at, updated_at, updated_by
FROM schedule WHERE wake_at IS NOT NULL AND wake_at <= ?2 AND (?1 >> slot) & 1 = 1 ORDER BY wake_at, slot LIMIT ?3

-- name: delete_old_runs
-- Deletes old runs.
-- parameters: ?1 created before this (ms), ?2 limit.
DELETE FROM schedule_run WHERE (schedule_id, at, kind, revision, outcome) IN (
    SELECT schedule_id, at, kind, revision, outcome FROM schedule_run WHERE created_at < ?1 ORDER BY created_at LIMIT ?2)

-- name: list
-- Lists the schedules of a namespace by name.
-- parameters: ?1 namespace, ?2 after this name, ?3 limit.
SELECT id, namespace, name, revision, step, body, progress, wake_at, created_at, updated_at, updated_by
FROM schedule WHERE namespace = ?1 AND name > ?2 ORDER BY name LIMIT ?3

-- name: take_revision
-- Takes the number of the next change.
UPDATE meta SET value = value + 1 WHERE key = 'schedules_revision' RETURNING value

-- name: find_next_wake
-- Finds the earliest wake_at of all schedules; no row: none has one.
SELECT wake_at FROM schedule WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1

-- name: read
-- Reads a schedule.
-- parameters: ?1 namespace, ?2 name.
SELECT id, namespace, name, revision, step, body, progress, wake_at, created_at, updated_at, updated_by
FROM schedule WHERE namespace = ?1 AND name = ?2

-- name: postpone_run
-- Postpones a run that cannot be settled now.
-- parameters: ?1 schedule, ?2 at (ms), ?3 kind, ?4 revision, ?5 now (ms).
UPDATE schedule_run SET unsettled_at = ?5
WHERE schedule_id = ?1 AND at = ?2 AND kind = ?3 AND revision = ?4 AND outcome = 1 AND unsettled_at IS NOT NULL

-- name: read_run_task
-- Reads the task of a created run; NULL: it is not created yet.
-- parameters: ?1 schedule, ?2 at (ms), ?3 kind, ?4 revision.
SELECT task_ref FROM schedule_run
WHERE schedule_id = ?1 AND at = ?2 AND kind = ?3 AND revision = ?4 AND outcome = 1

-- name: delete
-- Deletes a schedule if its step is the expected one.
-- parameters: ?1 id, ?2 expected step.
DELETE FROM schedule WHERE id = ?1 AND step = ?2

-- name: replace
-- Replaces the document of a schedule if its step is the expected one.
-- parameters: ?1 namespace, ?2 name, ?3 expected step, ?4 revision, ?5 body (JSON), ?6 progress (JSON), ?7 wake_at
-- (ms, NULL: never), ?8 now (ms), ?9 updated by.
UPDATE schedule SET revision = ?4, step = step + 1, body = ?5, progress = ?6, wake_at = ?7, updated_at = ?8, updated_by = ?9
WHERE namespace = ?1 AND name = ?2 AND step = ?3

-- name: insert_run
-- Inserts what became of an instant. An existing run stays.
-- parameters: ?1 schedule, ?2 at (ms), ?3 kind, ?4 revision, ?5 outcome, ?6 execute_at (ms), ?7 number, ?8 reason,
-- ?9 unsettled_at (ms, NULL: settled), ?10 now (ms), ?11 version of its task (NULL: it has none).
INSERT INTO schedule_run (schedule_id, at, kind, revision, outcome, execute_at, run_number, reason, unsettled_at, created_at, version)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT (schedule_id, at, kind, revision, outcome) DO NOTHING

-- name: list_runs
-- Lists the runs of a schedule, the latest instant first.
-- parameters: ?1 schedule, ?2 from (ms, inclusive), ?3 before (ms), ?4 limit.
SELECT schedule_run.schedule_id, schedule_run.at, schedule_run.kind, schedule_run.revision, schedule_run.outcome, schedule_run.execute_at,
    schedule_run.run_number, schedule_run.reason, schedule_run.task_ref, schedule_run.unsettled_at, schedule_run.created_at, schedule_run.version
FROM schedule_run WHERE schedule_id = ?1 AND at >= ?2 AND at < ?3 ORDER BY at DESC LIMIT ?4

-- name: settle_run
-- Saves the task that was created for a run.
-- parameters: ?1 schedule, ?2 at (ms), ?3 kind, ?4 revision, ?5 reference of the task, ?6 reason (NULL: unchanged).
UPDATE schedule_run SET task_ref = ?5, unsettled_at = NULL, reason = coalesce(?6, reason)
WHERE schedule_id = ?1 AND at = ?2 AND kind = ?3 AND revision = ?4 AND outcome = 1 AND unsettled_at IS NOT NULL

-- name: list_unsettled
-- Lists runs whose task was not created, with their schedules.
-- parameters: ?1 unsettled since before this (ms), ?2 limit, ?3 schedule (NULL: the runs of all schedules; otherwise
-- only its planned runs), ?4 before this revision.
SELECT schedule.id, namespace, name, schedule.revision, step, body, progress, wake_at, schedule.created_at, updated_at, updated_by,
    schedule_run.schedule_id, schedule_run.at, schedule_run.kind, schedule_run.revision, schedule_run.outcome, schedule_run.execute_at,
    schedule_run.run_number, schedule_run.reason, schedule_run.task_ref, schedule_run.unsettled_at, schedule_run.created_at, schedule_run.version
FROM schedule_run JOIN schedule ON schedule.id = schedule_run.schedule_id
WHERE unsettled_at IS NOT NULL AND unsettled_at < ?1 AND (?3 IS NULL OR (schedule_id = ?3 AND kind = 0 AND schedule_run.revision < ?4)) ORDER BY unsettled_at LIMIT ?2

-- name: withdraw_run
-- Gives a created run another outcome. The reason of the withdrawal is appended to the reason of the run.
-- parameters: ?1 schedule, ?2 at (ms), ?3 kind, ?4 revision, ?5 reason, ?6 outcome.
UPDATE OR REPLACE schedule_run SET outcome = ?6, reason = coalesce(reason || '; ', '') || ?5, unsettled_at = NULL
WHERE schedule_id = ?1 AND at = ?2 AND kind = ?3 AND revision = ?4 AND outcome = 1
