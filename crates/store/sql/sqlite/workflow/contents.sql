-- What the rows of a node carry. ?1 workflow, ?2 node.
SELECT node, item, role, result, error, items FROM workflow_node WHERE workflow_id = ?1 AND node = ?2
