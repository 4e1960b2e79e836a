-- Forgets the rows of a workflow. ?1 workflow.
DELETE FROM workflow_node WHERE workflow_id = ?1
