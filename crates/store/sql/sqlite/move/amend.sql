-- What a caller asked for is changed while the task is dead: it stays so. A new fence, so that of two changes one is refused.
-- ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 max_attempts or NULL (as it was), ?7 priority or NULL (as it was), ?8 whether the payload is JSON, or NULL (payload as it
-- was), ?9 payload, or NULL when it goes to `body`, ?10 timeout_ms or NULL (as it was), ?11 whether there is a new retry,
-- ?12 retry (JSON) or NULL (default).
-- moves: amend from (9) to 9
UPDATE task SET
    state = 9,
    fence = fence + 1,
    max_attempts = coalesce(?6, max_attempts),
    priority = coalesce(?7, priority),
    payload_is_json = coalesce(?8, payload_is_json),
    payload = CASE WHEN ?8 IS NULL THEN payload ELSE ?9 END,
    timeout_ms = coalesce(?10, timeout_ms),
    retry = CASE WHEN ?11 THEN ?12 ELSE retry END,
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND state IN (9) AND (?2 IS NULL OR fence = ?2)
