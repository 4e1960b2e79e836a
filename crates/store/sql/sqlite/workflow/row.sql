-- A row as it is from now on. A reference stays while the attempt is the same, and items as they were first.
-- ?1 workflow, ?2 node, ?3 item, ?4 role, ?5 state, ?6 attempt, ?7 order, ?8 item count, ?9 begun (ms), ?10 ended (ms), ?11 result, ?12 error,
-- ?13 items.
INSERT INTO workflow_node
    (workflow_id, node, item, role, state, attempt, done_order, item_count, begun_at, ended_at, result, error, items)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
ON CONFLICT (workflow_id, node, item, role) DO UPDATE SET
    task_ref = CASE WHEN attempt = ?6 THEN task_ref END,
    begun_at = CASE WHEN ?5 = 1 AND state <> 1 THEN ?9 ELSE begun_at END,
    ended_at = ?10, state = ?5, attempt = ?6, done_order = ?7, item_count = ?8, result = ?11, error = ?12, items = COALESCE(items, ?13)
