-- Executors.

-- name: mark_silent
-- Marks executors that fell silent, each once, so that they can be counted.
-- parameters: ?1 now (ms).
UPDATE executor SET gone = 1 WHERE alive_until <= ?1 AND gone = 0

-- name: delete_silent
-- Deletes executors that fell silent or left long ago.
-- parameters: ?1 silent since before this (ms), ?2 left before this (ms).
DELETE FROM executor WHERE (gone = 1 AND alive_until < ?1) OR (gone = 2 AND seen_at < ?2)

-- name: list
-- Lists the executors of a namespace by name.
-- parameters: ?1 namespace, ?2 from this name on, ?3 limit.
SELECT namespace, name, body, wish, first_seen_at, seen_at, alive_until FROM executor
WHERE namespace = ?1 AND name >= ?2 AND gone <> 2 ORDER BY name LIMIT ?3

-- name: save_heartbeat
-- Saves a heartbeat or a farewell. Members that the body does not name keep their values; a heartbeat older than the
-- last one changes nothing.
-- parameters: ?1 namespace, ?2 name, ?3 body (JSON object), ?4 seen_at (ms), ?5 alive_until (ms), ?6 gone (0, or 2: a
-- farewell).
INSERT INTO executor (namespace, name, body, wish, gone, first_seen_at, seen_at, alive_until)
VALUES (?1, ?2, ?3, 0, ?6, ?4, ?4, ?5)
ON CONFLICT (namespace, name) DO UPDATE SET
    body = json_patch(executor.body, excluded.body),
    wish = CASE excluded.gone WHEN 2 THEN 0 ELSE executor.wish END,
    gone = excluded.gone,
    seen_at = excluded.seen_at,
    alive_until = CASE excluded.gone WHEN 2 THEN excluded.alive_until
        ELSE max(executor.alive_until, excluded.alive_until) END
WHERE excluded.seen_at > executor.seen_at

-- name: count_by_state
-- Counts executors by desired state and by whether they are silent.
-- parameters: ?1 now (ms).
SELECT wish, alive_until <= ?1, count(*) FROM executor WHERE gone <> 2 GROUP BY 1, 2

-- name: set_desired_state
-- Sets the desired state of an executor, if the present one is the expected one.
-- parameters: ?1 namespace, ?2 name, ?3 desired state, ?4 expected state.
UPDATE executor SET wish = ?3 WHERE namespace = ?1 AND name = ?2 AND gone <> 2 AND wish = ?4

-- name: read_desired_state
-- Reads the desired state of an executor.
-- parameters: ?1 namespace, ?2 name.
SELECT wish FROM executor WHERE namespace = ?1 AND name = ?2 AND gone <> 2

-- name: list_desired_states
-- Lists the executors whose desired state is not to serve.
SELECT namespace, name, wish FROM executor WHERE wish <> 0 AND gone <> 2
