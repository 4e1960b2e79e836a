-- A dead task is given new attempts. What its last attempt reported stays readable.
-- ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 execute_at (ms).
-- moves: redrive from (9) to 1
UPDATE task SET
    state = 1,
    fence = fence + 1,
    attempt = 0,
    execute_at = ?6,
    due_at = max(?6, ?3),
    wait_at = max(?6, ?3),
    fired_at = NULL,
    keep_until = NULL,
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || 0 || ?5)
WHERE id = ?1 AND state IN (9) AND (?2 IS NULL OR fence = ?2)
