-- Whether the account lacks the bytes of tasks from before it knew them: a row, or none.
SELECT 1 FROM meta WHERE name = 'uncounted_bytes'
