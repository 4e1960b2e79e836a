-- Removes the marks that dead engines have left at subjects. In the catalog. 1 the ids (JSON), 2 kind, 3 the engine that asks.
DELETE evaluation FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) AS gone
STRAIGHT_JOIN evaluation FORCE INDEX (PRIMARY) ON evaluation.kind = ? AND evaluation.id = gone.id
LEFT JOIN engine ON engine.name = evaluation.engine
    AND engine.alive_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
WHERE evaluation.engine <> ? AND engine.name IS NULL
