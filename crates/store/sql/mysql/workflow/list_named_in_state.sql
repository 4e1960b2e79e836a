-- Workflows of a namespace below an id, newest first, of one name in one state. In the catalog. Namespace, id, name, state, limit.
SELECT workflow.id, workflow.namespace, workflow.name, workflow.version, workflow.definition_id, workflow.step, workflow.state, workflow.progress,
    workflow.input, workflow.wake_at, workflow.created_at, workflow.updated_at, workflow.finished_at, workflow.created_by
FROM workflow FORCE INDEX (workflow_by_name) WHERE namespace = ? AND id < ? AND name = ? AND state = ? ORDER BY id DESC LIMIT ?
