-- What other engines have left marks at, and is gone or over (of workflows all but states 1 and 2, of bulk operations all but 1, 2
-- and 3). There are few marks at any time. ?1 the engine that asks, ?2 limit.
SELECT DISTINCT kind, id FROM evaluation
WHERE engine <> ?1 AND CASE kind
    WHEN 1 THEN NOT EXISTS (SELECT 1 FROM schedule WHERE schedule.id = evaluation.id)
    WHEN 2 THEN NOT EXISTS (SELECT 1 FROM workflow WHERE workflow.id = evaluation.id AND workflow.state IN (1, 2))
    WHEN 3 THEN NOT EXISTS (SELECT 1 FROM bulk WHERE bulk.id = evaluation.id AND bulk.state IN (1, 2, 3))
    ELSE FALSE
END
LIMIT ?2
