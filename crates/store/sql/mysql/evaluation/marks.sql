-- The marks of subjects: id, engine, turn, and that engine again if it gives signs of life. In the catalog.
-- 1 the ids (JSON), 2 kind.
SELECT evaluation.id, evaluation.engine, evaluation.turn, engine.name AS alive
FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) AS wanted
STRAIGHT_JOIN evaluation FORCE INDEX (PRIMARY) ON evaluation.kind = ? AND evaluation.id = wanted.id
LEFT JOIN engine ON engine.name = evaluation.engine
    AND engine.alive_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
