-- The executor reports success. A lease that has ended, but was not collected yet, still counts.
-- ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 keep_until (ms), ?7 to ?10 result code, message, whether its body is JSON, body (all NULL: none),
-- ?11 fired_at (ms) or NULL: as it was, ?12 the state that it is in or NULL (any of these).
-- moves: succeed from (4, 5) to 8
UPDATE task SET
    state = 8,
    keep_until = ?6,
    fired_at = coalesce(?11, fired_at),
    lease_executor = NULL, lease_since = NULL, lease_until = NULL, cancel_requested = 0,
    result_code = ?7, result_msg = ?8, result_is_json = ?9, result_body = ?10,
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND state IN (4, 5) AND (?12 IS NULL OR state = ?12) AND (?2 IS NULL OR fence = ?2)
