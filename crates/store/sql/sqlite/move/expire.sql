-- Not started by its deadline.
-- ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 keep_until (ms), ?7 error or NULL.
-- The commonest states stand before the list that has them too: SQLite builds a table for a list, 3 us a row.
-- moves: expire from (1, 2, 3, 6, 7) to 9
UPDATE task SET
    state = 9,
    wait_at = NULL,
    keep_until = ?6,
    last_error = coalesce(?7, last_error),
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND (state = 1 OR state = 2 OR state = 3 OR state IN (1, 2, 3, 6, 7)) AND (?2 IS NULL OR fence = ?2)
