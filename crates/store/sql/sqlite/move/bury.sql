-- The last attempt failed, or the executor refused for good.
-- ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 keep_until (ms), ?7 to ?10 result code, message, whether its body is JSON, body (all NULL: none),
-- ?11 error or NULL, ?12 fired_at (ms) or NULL: as it was.
-- moves: bury from (4, 5) to 9
UPDATE task SET
    state = 9,
    keep_until = ?6,
    fired_at = coalesce(?12, fired_at),
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
