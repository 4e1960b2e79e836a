-- Whether the server is at work on what was asked on a connection: 0 or 1; no row: the connection is gone. A user sees
-- its own connections without any further right. 1 the number of the connection.
SELECT CAST(command <> 'Sleep' AS SIGNED) FROM information_schema.processlist WHERE id = ?
