-- How many bytes the payloads of waiting tasks are, in the account. Only the sum over the rows of a queue says something; a
-- single row may be negative.
ALTER TABLE books ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;

INSERT INTO books (namespace, queue, state, tasks, bytes)
SELECT namespace, queue, state, 0, sum(CASE
    WHEN payload_is_json >= 2 THEN CAST(CAST(task.payload AS TEXT) AS INTEGER)
    ELSE coalesce(length(task.payload), length(body.payload), 0) END)
FROM task LEFT JOIN body ON task.payload IS NULL AND body.id = task.id
WHERE lease_until IS NULL AND keep_until IS NULL
GROUP BY namespace, queue, state
ON CONFLICT (namespace, queue, state) DO UPDATE SET bytes = excluded.bytes;
