-- Forgets the history of what was set for the queues of a namespace; its own stays. 1 namespace, 2 limit.
DELETE FROM setting_change WHERE namespace = ? AND queue > '' ORDER BY namespace, queue, revision LIMIT ?
