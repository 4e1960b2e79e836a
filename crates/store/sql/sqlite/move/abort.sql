-- Ended by its executor, which had been asked to stop.
-- ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 keep_until (ms), ?7 error or NULL, ?8 fired_at (ms) or NULL: as it was.
-- moves: abort from (4, 5) to 10
UPDATE task SET
    state = 10,
    keep_until = ?6,
    fired_at = coalesce(?8, fired_at),
    lease_executor = NULL, lease_since = NULL, lease_until = NULL, cancel_requested = 0,
    last_error = coalesce(?7, last_error),
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND state IN (4, 5) AND (?2 IS NULL OR fence = ?2)
