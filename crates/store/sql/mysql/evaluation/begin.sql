-- Marks what is about to be evaluated, but for what so many other engines have marked. In the catalog.
-- 1 kind, 2 engine, 3 turn, 4 now (ms), 5 the subjects (JSON: [id, namespace, name], by id), 6 kind, 7 engine, 8 how many.
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
