-- Executors of a namespace by name. 1 namespace, 2 from this name on, 3 limit.
SELECT namespace, name, body, wish, first_seen_at, seen_at, alive_until FROM executor
WHERE namespace = ? AND name >= ? AND gone <> 2 ORDER BY name LIMIT ?
