-- Executors, in the catalog.

-- name: mark_silent
-- Marks executors that fell silent, each once, so that they can be counted.
-- parameters: 1 now (ms).
UPDATE executor SET gone = 1 WHERE alive_until <= ? AND gone = 0

-- name: delete_silent
-- Deletes executors that fell silent or left long ago.
-- parameters: 1 silent since before this (ms), 2 left before this (ms).
DELETE FROM executor WHERE (gone = 1 AND alive_until < ?) OR (gone = 2 AND seen_at < ?)

-- name: list
-- Lists the executors of a namespace by name.
-- parameters: 1 namespace, 2 from this name on, 3 limit.
SELECT namespace, name, body, wish, first_seen_at, seen_at, alive_until FROM executor
WHERE namespace = ? AND name >= ? AND gone <> 2 ORDER BY name LIMIT ?

-- name: save_heartbeats
-- Saves heartbeats and farewells. Members that a body does not name keep their values; a heartbeat older than the
-- last one changes nothing. MySQL assigns in order and the other columns compare with `seen_at`, hence it comes last.
-- parameters: 1 the signs (JSON: [namespace, name, body (JSON text), seen_at (ms), alive_until (ms), gone (0, or 2: a
-- farewell)]).
INSERT INTO executor (namespace, name, body, wish, gone, first_seen_at, seen_at, alive_until)
SELECT signs.namespace, signs.name, signs.body, 0, signs.gone, signs.seen_at, signs.seen_at, signs.alive_until
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    namespace VARCHAR(128) CHARACTER SET ascii PATH '$[0]', name VARCHAR(191) CHARACTER SET utf8mb4 PATH '$[1]',
    body LONGTEXT CHARACTER SET utf8mb4 PATH '$[2]', seen_at BIGINT PATH '$[3]', alive_until BIGINT PATH '$[4]',
    gone INT PATH '$[5]'
)) AS signs
ON DUPLICATE KEY UPDATE
    executor.body = IF(VALUES(seen_at) > executor.seen_at,
        JSON_MERGE_PATCH(executor.body, VALUES(body)), executor.body),
    executor.wish = IF(VALUES(seen_at) > executor.seen_at AND VALUES(gone) = 2, 0, executor.wish),
    executor.alive_until = IF(VALUES(seen_at) > executor.seen_at,
        IF(VALUES(gone) = 2, VALUES(alive_until), GREATEST(executor.alive_until, VALUES(alive_until))),
        executor.alive_until),
    executor.gone = IF(VALUES(seen_at) > executor.seen_at, VALUES(gone), executor.gone),
    executor.seen_at = GREATEST(executor.seen_at, VALUES(seen_at))

-- name: count_by_state
-- Counts executors by desired state and by whether they are silent.
-- parameters: 1 now (ms).
SELECT wish, CAST(alive_until <= ? AS SIGNED) AS silent, COUNT(*) FROM executor WHERE gone <> 2 GROUP BY wish, silent

-- name: set_desired_state
-- Sets the desired state of an executor, if the present one is the expected one.
-- parameters: 1 desired state, 2 namespace, 3 name, 4 expected state.
UPDATE executor SET wish = ? WHERE namespace = ? AND name = ? AND gone <> 2 AND wish = ?

-- name: read_desired_state
-- Reads the desired state of an executor.
-- parameters: 1 namespace, 2 name.
SELECT wish FROM executor WHERE namespace = ? AND name = ? AND gone <> 2

-- name: list_desired_states
-- Lists the executors whose desired state is not to serve.
SELECT namespace, name, wish FROM executor WHERE wish <> 0 AND gone <> 2
