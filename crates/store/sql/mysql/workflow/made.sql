-- The tasks of rows are there. 1 the rows (JSON: [node, item, role, attempt, reference]), 2 workflow.
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    node INT PATH '$[0]', item INT PATH '$[1]', role INT PATH '$[2]', attempt INT PATH '$[3]',
    task_ref VARCHAR(64) CHARACTER SET ascii PATH '$[4]'
)) AS made
STRAIGHT_JOIN workflow_node FORCE INDEX (PRIMARY) ON workflow_node.workflow_id = ? AND workflow_node.node = made.node
    AND workflow_node.item = made.item AND workflow_node.role = made.role
SET workflow_node.task_ref = made.task_ref
WHERE workflow_node.task_ref IS NULL AND workflow_node.attempt = made.attempt
