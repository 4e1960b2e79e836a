-- Rows as they are from now on. A reference stays while the attempt is the same, and items as they were first.
-- 1 workflow, 2 the rows (JSON: [node, item, role, state, attempt, order, item count, begun (ms), ended (ms), result, error, items]).
INSERT INTO workflow_node
    (workflow_id, node, item, role, state, attempt, done_order, item_count, begun_at, ended_at, result, error, items)
SELECT ?, node, item, role, state, attempt, done_order, item_count, begun_at, ended_at, result, error, items
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    node INT PATH '$[0]', item INT PATH '$[1]', role INT PATH '$[2]', state INT PATH '$[3]', attempt INT PATH '$[4]',
    done_order BIGINT PATH '$[5]', item_count INT PATH '$[6]', begun_at BIGINT PATH '$[7]', ended_at BIGINT PATH '$[8]',
    result LONGTEXT CHARACTER SET utf8mb4 PATH '$[9]', error LONGTEXT CHARACTER SET utf8mb4 PATH '$[10]',
    items LONGTEXT CHARACTER SET utf8mb4 PATH '$[11]'
)) AS wanted
ON DUPLICATE KEY UPDATE
    task_ref = IF(workflow_node.attempt = VALUES(attempt), workflow_node.task_ref, NULL),
    begun_at = IF(VALUES(state) = 1 AND workflow_node.state <> 1, VALUES(begun_at), workflow_node.begun_at),
    ended_at = VALUES(ended_at), state = VALUES(state), attempt = VALUES(attempt), done_order = VALUES(done_order),
    item_count = VALUES(item_count), result = VALUES(result), error = VALUES(error), items = COALESCE(workflow_node.items, VALUES(items))
