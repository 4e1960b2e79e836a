-- Forgets the history of what was set for the queues of a namespace; its own stays. ?1 namespace, ?2 limit.
DELETE FROM setting_change WHERE revision IN (
    SELECT revision FROM setting_change WHERE namespace = ?1 AND queue > '' LIMIT ?2
)
