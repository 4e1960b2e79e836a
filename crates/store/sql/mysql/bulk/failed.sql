-- What failed, in the place of what stood for the same tasks; while there are fewer than are kept. In the catalog.
-- 1 the rows (JSON: [bulk, id, reference, at (ms), error]), 2 bulk, 3 how many are kept.
INSERT INTO bulk_failure (bulk_id, id, task_ref, failed_at, error)
SELECT bulk, task, task_ref, failed_at, error
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    bulk BIGINT PATH '$[0]', task BIGINT PATH '$[1]',
    task_ref VARCHAR(64) CHARACTER SET ascii PATH '$[2]', failed_at BIGINT PATH '$[3]',
    error LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]'
)) AS wanted
WHERE (SELECT COUNT(*) FROM (SELECT id FROM bulk_failure WHERE bulk_id = ?) AS standing) < ?
ON DUPLICATE KEY UPDATE failed_at = VALUES(failed_at), error = VALUES(error)
