-- At what so many engines have died: kind, id, namespace, name, when the last mark was made, and how many. There are few marks at
-- any time. In the catalog. 1 the engine that asks, 2 how many, 3 limit.
SELECT evaluation.kind, evaluation.id, MAX(evaluation.namespace), MAX(evaluation.name), MAX(evaluation.begun_at),
    COUNT(DISTINCT evaluation.engine)
FROM evaluation
LEFT JOIN engine ON engine.name = evaluation.engine
    AND engine.alive_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
WHERE evaluation.engine <> ? AND engine.name IS NULL
GROUP BY evaluation.kind, evaluation.id
HAVING COUNT(DISTINCT evaluation.engine) >= ?
ORDER BY evaluation.kind, evaluation.id LIMIT ?
