-- The same id and version came again and takes the place of what was there. Its reference stays good.
-- ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 queue, ?7 kind, ?8 priority, ?9 max_attempts, ?10 execute_at (ms), ?11 due_at (ms), ?12 timeout_ms or NULL,
-- ?13 deadline_ms or NULL, ?14 retry (JSON) or NULL (default), ?15 labels (JSON) or NULL, ?16 traceparent or NULL,
-- ?17 whether the payload is JSON, ?18 payload, or NULL when it goes to `body`, ?19 demands (JSON) or NULL.
-- moves: replace from (1, 2, 3, 6, 7, 9, 10, 11, 12) to 1
UPDATE task SET
    state = 1,
    fence = fence + 1,
    attempt = 0,
    queue = ?6,
    kind = ?7,
    priority = ?8,
    max_attempts = ?9,
    execute_at = ?10,
    due_at = ?11,
    wait_at = ?11,
    fired_at = NULL,
    keep_until = NULL,
    timeout_ms = ?12,
    deadline_ms = ?13,
    lease_executor = NULL, lease_since = NULL, lease_until = NULL, cancel_requested = 0,
    retry = ?14,
    labels = ?15,
    traceparent = ?16,
    demands = ?19,
    progress = NULL,
    log = NULL,
    result_code = NULL, result_msg = NULL, result_is_json = NULL, result_body = NULL,
    last_error = NULL,
    payload_is_json = ?17,
    payload = ?18,
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || 0 || ?5)
WHERE id = ?1 AND state IN (1, 2, 3, 6, 7, 9, 10, 11, 12) AND (?2 IS NULL OR fence = ?2)
