-- Where a task stands, for the account and the history of the move that follows; at last the bytes of its payload, NULL of one
-- in `body`. ?1 id.
SELECT namespace, queue, state, due_at, execute_at, payload IS NULL,
    CASE WHEN payload_is_json >= 2 THEN CAST(CAST(payload AS TEXT) AS INTEGER) ELSE length(payload) END
FROM task WHERE id = ?1
