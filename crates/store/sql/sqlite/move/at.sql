-- Where a task stands, for the account and the history of the move that follows; behind them the bytes of its payload, NULL of
-- one in `body`, and of the attempt that has it: since when, and the trace. ?1 id.
SELECT namespace, queue, state, due_at, execute_at, payload IS NULL,
    CASE WHEN payload_is_json >= 2 THEN CAST(CAST(payload AS TEXT) AS INTEGER) ELSE length(payload) END,
    lease_since, traceparent
FROM task WHERE id = ?1
