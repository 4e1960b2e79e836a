-- Where tasks stand, locked until the end of the transaction, for the decisions, the account and the histories of the
-- moves that follow; behind them the bytes of their payloads, NULL of those in `body`, and of attempts in flight since when
-- they are, and the traces.
-- 1 the places (JSON: [number, partition, due_at (ms), id], in the order of the key).
SELECT wanted.nth, task.due_at, namespace, queue, state, fence, attempt, execute_at, deadline_ms, priority,
    payload IS NULL, CASE
        WHEN payload_is_json >= 2 THEN CAST(SUBSTRING_INDEX(payload, ' ', 1) AS SIGNED)
        ELSE LENGTH(payload) END,
    lease_since, traceparent
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at AND task.id = wanted.id
FOR UPDATE /*!80001 OF task */
