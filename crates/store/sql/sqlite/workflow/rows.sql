-- The rows of a workflow. ?1 workflow.
SELECT node, item, role, state, attempt, done_order, item_count, task_ref, begun_at, ended_at
FROM workflow_node WHERE workflow_id = ?1
