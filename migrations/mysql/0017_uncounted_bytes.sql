-- Present in `meta`: tasks stand here that may be from before the account knew the bytes of payloads (0011). They are added
-- once, while engines run, and then this goes (sql/mysql/uncounted). A database without tasks has nothing to add. Can be run
-- again.
INSERT IGNORE INTO meta (name, value)
SELECT 'uncounted_bytes', 1 FROM DUAL
WHERE EXISTS (SELECT 1 FROM task LIMIT 1) OR EXISTS (SELECT 1 FROM task_gone LIMIT 1);
