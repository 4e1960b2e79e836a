-- Forgets the schedules of a namespace; their runs are forgotten with time. 1 namespace, 2 limit.
DELETE FROM schedule WHERE namespace = ? ORDER BY namespace, name LIMIT ?
