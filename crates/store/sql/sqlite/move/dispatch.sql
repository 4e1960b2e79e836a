-- Handed to an executor: spends an attempt and makes a new fence. One row, which is read by lease/grant.sql before, or known.
-- ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 fired_at (ms), ?7 executor, ?8 lease_until (ms, already bounded by timeout_ms), ?9 beginning of
-- the attempt (ms), ?10 the state that it is in.
-- The commonest states stand before the list that has them too: SQLite builds a table for a list, 3 us a row.
-- moves: dispatch from (1, 2, 3, 6, 7) to 4
UPDATE task SET
    state = 4,
    fence = fence + 1,
    attempt = attempt + 1,
    wait_at = NULL,
    fired_at = ?6,
    lease_executor = ?7,
    lease_since = ?9,
    lease_until = ?8,
    cancel_requested = 0,
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || (attempt + 1) || ?5)
WHERE id = ?1 AND (state = 1 OR state = 2 OR state = 3 OR state IN (1, 2, 3, 6, 7)) AND state = ?10 AND (?2 IS NULL OR fence = ?2)
