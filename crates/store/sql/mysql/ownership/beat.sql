-- A sign of life. The clock is the database's.
-- Parameters: engine, ttl (ms), how many databases it names, 1: the hot set answers it (0: not, 2: it has none), the databases that it does not reach
-- (numbers with commas between), and the last four again.
INSERT INTO engine (name, alive_until, names_databases, has_hot, without_databases, enters_chunks)
VALUES (?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 + ?, ?, ?, ?, 1)
ON DUPLICATE KEY UPDATE alive_until = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 + ?,
    names_databases = ?, has_hot = ?, without_databases = ?, enters_chunks = 1
