-- What the rows of some nodes carry. In the catalog. 1 the nodes (JSON), 2 workflow.
SELECT workflow_node.node, workflow_node.item, workflow_node.role, workflow_node.result, workflow_node.error, workflow_node.items
FROM JSON_TABLE(?, '$[*]' COLUMNS (node INT PATH '$')) AS wanted
STRAIGHT_JOIN workflow_node FORCE INDEX (PRIMARY) ON workflow_node.workflow_id = ? AND workflow_node.node = wanted.node
