-- Forgets rows of a workflow. In the catalog. 1 workflow, 2 limit.
DELETE FROM workflow_node WHERE workflow_id = ? LIMIT ?
