-- The same account, counted from the rows: reads every task.
SELECT namespace, queue, state, count(*), sum(CASE
    WHEN lease_until IS NOT NULL OR keep_until IS NOT NULL THEN 0
    WHEN payload_is_json >= 2 THEN CAST(CAST(task.payload AS TEXT) AS INTEGER)
    ELSE coalesce(length(task.payload), length(body.payload), 0) END)
FROM task LEFT JOIN body ON task.payload IS NULL AND body.id = task.id
GROUP BY namespace, queue, state
ORDER BY namespace, queue, state
