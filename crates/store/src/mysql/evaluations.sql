-- Marks of subjects that are being evaluated, in the catalog: a subject at which engines die is set aside.

-- name: mark
-- Marks subjects that are about to be evaluated, unless a number of other engines have marked them. In the catalog.
-- parameters: 1 kind, 2 engine, 3 turn, 4 now (ms), 5 the subjects (JSON: [id, namespace, name], by id), 6 kind,
-- 7 engine, 8 number of other engines.
INSERT IGNORE INTO evaluation (kind, id, engine, turn, namespace, name, begun_at)
SELECT ?, wanted.id, ?, ?, wanted.namespace, wanted.name, ?
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    id BIGINT PATH '$[0]',
    namespace VARCHAR(191) CHARACTER SET utf8mb4 PATH '$[1]',
    name VARCHAR(191) CHARACTER SET utf8mb4 PATH '$[2]'
)) AS wanted
WHERE (
    SELECT COUNT(DISTINCT other.engine) FROM evaluation AS other
    WHERE other.kind = ? AND other.id = wanted.id AND other.engine <> ?
) < ?

-- name: unmark
-- Deletes the marks of one turn. In the catalog.
-- parameters: 1 the ids (JSON), 2 kind, 3 engine, 4 turn.
DELETE evaluation FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) AS gone
STRAIGHT_JOIN evaluation FORCE INDEX (PRIMARY) ON evaluation.kind = ? AND evaluation.id = gone.id
    AND evaluation.engine = ? AND evaluation.turn = ?

-- name: list_ended
-- Lists subjects with marks of dead engines that no longer exist or are finished: workflows in other states than 1
-- and 2, bulk operations in other states than 1, 2 and 3. There are few marks at any time. In the catalog.
-- parameters: 1 engine of the caller, 2 limit.
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

-- name: delete_marks_of_engine
-- Deletes all marks of an engine that stops. There are few marks at any time. In the catalog.
-- parameters: 1 engine.
DELETE FROM evaluation WHERE engine = ?

-- name: list_marks
-- Lists the marks of subjects: id, engine, turn, and the engine again if it is alive. In the catalog.
-- parameters: 1 the ids (JSON), 2 kind.
SELECT evaluation.id, evaluation.engine, evaluation.turn, engine.name AS alive
FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) AS wanted
STRAIGHT_JOIN evaluation FORCE INDEX (PRIMARY) ON evaluation.kind = ? AND evaluation.id = wanted.id
LEFT JOIN engine ON engine.name = evaluation.engine
    AND engine.alive_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000

-- name: delete_dead_marks
-- Deletes the marks of dead engines at subjects. In the catalog.
-- parameters: 1 the ids (JSON), 2 kind, 3 engine of the caller.
DELETE evaluation FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) AS gone
STRAIGHT_JOIN evaluation FORCE INDEX (PRIMARY) ON evaluation.kind = ? AND evaluation.id = gone.id
LEFT JOIN engine ON engine.name = evaluation.engine
    AND engine.alive_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
WHERE evaluation.engine <> ? AND engine.name IS NULL

-- name: list_set_aside
-- Lists the subjects at which a number of engines have died: kind, id, namespace, name, time of the last mark (ms),
-- and how many engines. There are few marks at any time. In the catalog.
-- parameters: 1 engine of the caller, 2 number of engines, 3 limit.
SELECT evaluation.kind, evaluation.id, MAX(evaluation.namespace), MAX(evaluation.name), MAX(evaluation.begun_at),
    COUNT(DISTINCT evaluation.engine)
FROM evaluation
LEFT JOIN engine ON engine.name = evaluation.engine
    AND engine.alive_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
WHERE evaluation.engine <> ? AND engine.name IS NULL
GROUP BY evaluation.kind, evaluation.id
HAVING COUNT(DISTINCT evaluation.engine) >= ?
ORDER BY evaluation.kind, evaluation.id LIMIT ?
