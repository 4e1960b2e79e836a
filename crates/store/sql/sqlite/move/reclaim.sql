-- A new owner takes over what the last one had claimed and not handed over. Touches no index.
-- ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>".
-- The commonest states stand before the list that has them too: SQLite builds a table for a list, 3 us a row.
-- moves: reclaim from (2, 3, 6) to 2
UPDATE task SET
    state = 2,
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND (state = 2 OR state = 3 OR state IN (2, 3, 6)) AND (?2 IS NULL OR fence = ?2)
