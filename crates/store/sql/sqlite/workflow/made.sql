-- The task of a row is there. ?1 workflow, ?2 node, ?3 item, ?4 role, ?5 attempt, ?6 reference.
UPDATE workflow_node SET task_ref = ?6
WHERE workflow_id = ?1 AND node = ?2 AND item = ?3 AND role = ?4 AND task_ref IS NULL AND attempt = ?5
