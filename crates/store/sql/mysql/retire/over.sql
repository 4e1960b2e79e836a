-- Tasks that may be retired or forgotten, locked until the end of the transaction; at last the bytes of their payloads, NULL
-- of those in `body`, and whether they are asked to stop.
-- 1 the places (JSON: [number, partition, due_at (ms), id], in the order of the key).
SELECT wanted.nth, task.due_at, namespace, queue, state, fence, attempt, keep_until, CASE
        WHEN payload_is_json >= 2 THEN CAST(SUBSTRING_INDEX(payload, ' ', 1) AS SIGNED)
        ELSE LENGTH(payload) END,
    cancel_requested
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at AND task.id = wanted.id
FOR UPDATE /*!80001 OF task */
