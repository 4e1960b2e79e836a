-- Leases, locked until the end of the transaction.
-- 1 the places (JSON: [number, partition, due_at (ms), id], in the order of the key).
SELECT wanted.nth, task.due_at, namespace, queue, state, fence, attempt, lease_since, lease_until, timeout_ms,
    cancel_requested, fired_at
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at AND task.id = wanted.id
FOR UPDATE /*!80001 OF task */
