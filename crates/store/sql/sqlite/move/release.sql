-- The executor was gone before the hand-over reached it: the attempt is given back. The fence stays, so that the
-- entry made from this row is good.
-- ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>".
-- moves: release from (4) to 3
UPDATE task SET
    state = 3,
    attempt = max(attempt - 1, 0),
    wait_at = due_at,
    lease_executor = NULL, lease_since = NULL, lease_until = NULL, cancel_requested = 0,
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || max(attempt - 1, 0) || ?5)
WHERE id = ?1 AND state IN (4) AND (?2 IS NULL OR fence = ?2)
