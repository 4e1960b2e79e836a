-- Time, payload, priority or queue changed before it fired. A new fence, so that the old hot entry is refused.
-- ?1 id, ?2 fence or NULL (any), ?3 now (ms), ?4 and ?5 the history line around "<state>,<attempt>",
-- ?6 execute_at (ms) or NULL (as it was), ?7 priority or NULL (as it was),
-- ?8 whether the payload is JSON, or NULL (payload as it was), ?9 payload, or NULL when it goes to `body`,
-- ?10 queue or NULL (as it was); the trigger `task_label_changed` enters its labels as that queue has declared them.
-- The commonest states stand before the list that has them too: SQLite builds a table for a list, 3 us a row.
-- moves: reschedule from (1, 2, 7) to 1
UPDATE task SET
    state = 1,
    fence = fence + 1,
    execute_at = coalesce(?6, execute_at),
    due_at = coalesce(max(?6, ?3), due_at),
    wait_at = coalesce(max(?6, ?3), due_at),
    fired_at = NULL,
    priority = coalesce(?7, priority),
    queue = coalesce(?10, queue),
    payload_is_json = coalesce(?8, payload_is_json),
    payload = CASE WHEN ?8 IS NULL THEN payload ELSE ?9 END,
    updated_at = ?3,
    history = CASE WHEN octet_length(history) > 262144
        THEN substr(history, 1, instr(history, char(10)) - 1) || ' +' || (length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) - 1
            - length(replace(substr(history, 1, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10))), char(10), ''))) || char(10)
            || substr(history, length(history) / 2 + instr(substr(history, length(history) / 2 + 1), char(10)) + 1)
        ELSE history END || (?4 || state || ',' || attempt || ?5)
WHERE id = ?1 AND (state = 1 OR state = 2 OR state IN (1, 2, 7)) AND (?2 IS NULL OR fence = ?2)
