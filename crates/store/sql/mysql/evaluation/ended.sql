-- What dead engines have left marks at, and is gone or over (of workflows all but states 1 and 2, of bulk operations all but 1, 2
-- and 3). There are few marks at any time. In the catalog. 1 the engine that asks, 2 limit.
SELECT DISTINCT evaluation.kind, evaluation.id
FROM evaluation
LEFT JOIN engine ON engine.name = evaluation.engine
    AND engine.alive_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
LEFT JOIN schedule ON evaluation.kind = 1 AND schedule.id = evaluation.id
LEFT JOIN workflow ON evaluation.kind = 2 AND workflow.id = evaluation.id AND workflow.state IN (1, 2)
LEFT JOIN bulk ON evaluation.kind = 3 AND bulk.id = evaluation.id AND bulk.state IN (1, 2, 3)
WHERE evaluation.engine <> ? AND engine.name IS NULL AND evaluation.kind IN (1, 2, 3)
    AND schedule.id IS NULL AND workflow.id IS NULL AND bulk.id IS NULL
LIMIT ?
