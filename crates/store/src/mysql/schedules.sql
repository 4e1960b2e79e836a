-- Schedules and their runs, in the catalog, and the secret that keys their identities.

-- name: offer_secret
-- Stores a secret, unless there is one. In the catalog.
-- parameters: 1 the secret.
INSERT IGNORE INTO identity_secret (id, secret) VALUES (1, ?)

-- name: read_secret
-- Reads the secret that was offered first. In the catalog.
SELECT secret FROM identity_secret WHERE id = 1

-- name: advance
-- Advances schedules that are locked.
-- parameters: 1 the schedules (JSON: [id, progress (JSON text), wake_at (ms, null: never)]).
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    id BIGINT PATH '$[0]', progress LONGTEXT CHARACTER SET utf8mb4 PATH '$[1]', wake_at BIGINT PATH '$[2]'
)) AS wanted
STRAIGHT_JOIN schedule FORCE INDEX (PRIMARY) ON schedule.id = wanted.id
SET schedule.step = schedule.step + 1, schedule.progress = wanted.progress, schedule.wake_at = wanted.wake_at

-- name: create
-- Inserts a schedule, unless its name is taken. In the catalog.
-- parameters: 1 namespace, 2 name, 3 slot, 4 revision, 5 body (JSON), 6 progress (JSON), 7 wake_at (ms, NULL: never),
-- 8 now (ms), 9 now (ms), 10 created by.
INSERT IGNORE INTO schedule
    (namespace, name, slot, revision, step, body, progress, wake_at, created_at, updated_at, updated_by)
VALUES (?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?)

-- name: list_due
-- Lists schedules whose wake_at has come, the longest overdue first. In the catalog.
-- parameters: 1 now (ms), 2 slots (bits), 3 limit.
SELECT id, namespace, name, revision, step, body, progress, wake_at, created_at, updated_at, updated_by
FROM schedule FORCE INDEX (schedule_wake) WHERE wake_at <= ? AND (? >> slot) & 1 = 1 ORDER BY wake_at, slot LIMIT ?

-- name: delete_old_runs
-- Deletes old runs. In the catalog.
-- parameters: 1 created before this (ms), 2 limit.
DELETE FROM schedule_run WHERE created_at < ? ORDER BY created_at LIMIT ?

-- name: list
-- Lists the schedules of a namespace by name. In the catalog.
-- parameters: 1 namespace, 2 after this name, 3 limit.
SELECT id, namespace, name, revision, step, body, progress, wake_at, created_at, updated_at, updated_by
FROM schedule WHERE namespace = ? AND name > ? ORDER BY name LIMIT ?

-- name: find_next_wake
-- Finds the earliest wake_at of all schedules; no row: none has one. In the catalog.
SELECT wake_at FROM schedule WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1

-- name: read
-- Reads a schedule. In the catalog.
-- parameters: 1 namespace, 2 name.
SELECT id, namespace, name, revision, step, body, progress, wake_at, created_at, updated_at, updated_by
FROM schedule WHERE namespace = ? AND name = ?

-- name: postpone_runs
-- Postpones runs that cannot be settled now.
-- parameters: 1 the runs (JSON: [schedule, at (ms), kind, revision]), 2 now (ms).
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    schedule_id BIGINT PATH '$[0]', at BIGINT PATH '$[1]', kind INT PATH '$[2]', revision BIGINT PATH '$[3]'
)) AS late
STRAIGHT_JOIN schedule_run FORCE INDEX (PRIMARY) ON schedule_run.schedule_id = late.schedule_id
    AND schedule_run.at = late.at AND schedule_run.kind = late.kind AND schedule_run.revision = late.revision
    AND schedule_run.outcome = 1
SET schedule_run.unsettled_at = ?
WHERE schedule_run.unsettled_at IS NOT NULL

-- name: read_run_tasks
-- Reads the tasks of created runs (NULL: not created yet), by their place in the list. In the catalog.
-- parameters: 1 the runs (JSON: [schedule, at (ms), kind, revision]).
SELECT CAST(wanted.nth AS SIGNED), schedule_run.task_ref
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth FOR ORDINALITY, schedule_id BIGINT PATH '$[0]', at BIGINT PATH '$[1]', kind INT PATH '$[2]', revision BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN schedule_run FORCE INDEX (PRIMARY) ON schedule_run.schedule_id = wanted.schedule_id
    AND schedule_run.at = wanted.at AND schedule_run.kind = wanted.kind AND schedule_run.revision = wanted.revision
    AND schedule_run.outcome = 1

-- name: delete
-- Deletes a schedule if its step is the expected one. In the catalog.
-- parameters: 1 id, 2 expected step.
DELETE FROM schedule WHERE id = ? AND step = ?

-- name: replace
-- Replaces the document of a schedule if its step is the expected one. In the catalog.
-- parameters: 1 revision, 2 body (JSON), 3 progress (JSON), 4 wake_at (ms, NULL: never), 5 now (ms), 6 updated by,
-- 7 namespace, 8 name, 9 expected step.
UPDATE schedule SET revision = ?, step = step + 1, body = ?, progress = ?, wake_at = ?, updated_at = ?, updated_by = ?
WHERE namespace = ? AND name = ? AND step = ?

-- name: insert_runs
-- Inserts what became of instants. An existing run stays.
-- parameters: 1 the runs (JSON: [schedule, at (ms), kind, revision, outcome, execute_at (ms), number, reason,
-- unsettled_at (ms, null: settled), now (ms), version of its task (null: it has none)]).
INSERT IGNORE INTO schedule_run
    (schedule_id, at, kind, revision, outcome, execute_at, run_number, reason, unsettled_at, created_at, version)
SELECT schedule_id, at, kind, revision, outcome, execute_at, run_number, reason, unsettled_at, created_at, version
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    schedule_id BIGINT PATH '$[0]', at BIGINT PATH '$[1]', kind INT PATH '$[2]', revision BIGINT PATH '$[3]',
    outcome INT PATH '$[4]', execute_at BIGINT PATH '$[5]', run_number BIGINT PATH '$[6]',
    reason LONGTEXT CHARACTER SET utf8mb4 PATH '$[7]', unsettled_at BIGINT PATH '$[8]', created_at BIGINT PATH '$[9]',
    version BIGINT PATH '$[10]'
)) AS made

-- name: list_runs
-- Lists the runs of a schedule, the latest instant first. In the catalog.
-- parameters: 1 schedule, 2 from (ms, inclusive), 3 before (ms), 4 limit.
SELECT schedule_run.schedule_id, schedule_run.at, schedule_run.kind, schedule_run.revision, schedule_run.outcome, schedule_run.execute_at,
    schedule_run.run_number, schedule_run.reason, schedule_run.task_ref, schedule_run.unsettled_at, schedule_run.created_at, schedule_run.version
FROM schedule_run WHERE schedule_id = ? AND at >= ? AND at < ? ORDER BY at DESC LIMIT ?

-- name: record_runs
-- Saves the tasks that were created for runs.
-- parameters: 1 the runs (JSON: [schedule, at (ms), kind, revision, reference of the task, reason (null:
-- unchanged)]).
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    schedule_id BIGINT PATH '$[0]', at BIGINT PATH '$[1]', kind INT PATH '$[2]', revision BIGINT PATH '$[3]',
    task_ref VARCHAR(64) CHARACTER SET ascii PATH '$[4]',
    reason LONGTEXT CHARACTER SET utf8mb4 PATH '$[5]'
)) AS made
STRAIGHT_JOIN schedule_run FORCE INDEX (PRIMARY) ON schedule_run.schedule_id = made.schedule_id
    AND schedule_run.at = made.at AND schedule_run.kind = made.kind AND schedule_run.revision = made.revision
    AND schedule_run.outcome = 1
SET schedule_run.task_ref = made.task_ref, schedule_run.unsettled_at = NULL,
    schedule_run.reason = COALESCE(made.reason, schedule_run.reason)
WHERE schedule_run.unsettled_at IS NOT NULL

-- name: lock_steps
-- Finds the schedules whose step is the expected one, and locks them until the end of the transaction.
-- parameters: 1 the schedules (JSON: [id, expected step], by id).
SELECT schedule.id
FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$[0]', step BIGINT PATH '$[1]')) AS wanted
STRAIGHT_JOIN schedule FORCE INDEX (PRIMARY) ON schedule.id = wanted.id AND schedule.step = wanted.step
FOR UPDATE /*!80001 OF schedule */

-- name: list_unsettled
-- Lists runs whose task was not created, with their schedules. In the catalog.
-- parameters: 1 unsettled since before this (ms), 2 and 3 schedule (NULL: the runs of all schedules; otherwise only
-- its planned runs), 4 before this revision, 5 limit.
SELECT schedule.id, namespace, name, schedule.revision, step, body, progress, wake_at, schedule.created_at, updated_at, updated_by,
    schedule_run.schedule_id, schedule_run.at, schedule_run.kind, schedule_run.revision, schedule_run.outcome, schedule_run.execute_at,
    schedule_run.run_number, schedule_run.reason, schedule_run.task_ref, schedule_run.unsettled_at, schedule_run.created_at, schedule_run.version
FROM schedule_run FORCE INDEX (schedule_run_unsettled) STRAIGHT_JOIN schedule ON schedule.id = schedule_run.schedule_id
WHERE unsettled_at < ? AND (? IS NULL OR (schedule_id = ? AND kind = 0 AND schedule_run.revision < ?)) ORDER BY unsettled_at LIMIT ?

-- name: withdraw_runs
-- Gives created runs another outcome. The reason of the withdrawal is appended to the reason of the run.
-- parameters: 1 the runs (JSON: [schedule, at (ms), kind, revision]), 2 outcome, 3 reason.
UPDATE IGNORE JSON_TABLE(?, '$[*]' COLUMNS (
    schedule_id BIGINT PATH '$[0]', at BIGINT PATH '$[1]', kind INT PATH '$[2]', revision BIGINT PATH '$[3]'
)) AS taken
STRAIGHT_JOIN schedule_run FORCE INDEX (PRIMARY) ON schedule_run.schedule_id = taken.schedule_id
    AND schedule_run.at = taken.at AND schedule_run.kind = taken.kind AND schedule_run.revision = taken.revision
    AND schedule_run.outcome = 1
SET schedule_run.outcome = ?, schedule_run.reason = CONCAT_WS('; ', schedule_run.reason, ?), schedule_run.unsettled_at = NULL
