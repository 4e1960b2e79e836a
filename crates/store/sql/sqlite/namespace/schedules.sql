-- Forgets the schedules of a namespace; their runs are forgotten with time. ?1 namespace, ?2 limit.
DELETE FROM schedule WHERE id IN (SELECT id FROM schedule WHERE namespace = ?1 LIMIT ?2)
