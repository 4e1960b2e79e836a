-- The attempt failed or its lease ended, and another one has a time. A new fence, so that the old lease is refused.
-- ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 due_at (ms), ?7 to ?10 result code, message, whether its body is JSON, body (all NULL: none), ?11 error or NULL.
-- moves: retry from (4, 5) to 7
UPDATE task SET
    state = 7,
    fence = fence + 1,
    -- The deadline is an instant: it stays where it was when execute_at, from which it counts, moves.
    deadline_ms = deadline_ms - (?6 - execute_at),
    execute_at = ?6,
    due_at = ?6,
    wait_at = ?6,
    fired_at = NULL,
    lease_executor = NULL, lease_since = NULL, lease_until = NULL, cancel_requested = 0,
    result_code = ?7, result_msg = ?8, result_is_json = ?9, result_body = ?10,
    last_error = coalesce(?11, last_error),
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND state IN (4, 5) AND (?2 IS NULL OR fence = ?2)
