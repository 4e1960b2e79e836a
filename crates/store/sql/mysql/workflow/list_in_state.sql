-- Workflows of a namespace below an id, newest first, in one state. In the catalog. Namespace, id, state, limit.
SELECT workflow.id, workflow.namespace, workflow.name, workflow.version, workflow.definition_id, workflow.step, workflow.state, workflow.progress,
    workflow.input, workflow.wake_at, workflow.created_at, workflow.updated_at, workflow.finished_at, workflow.created_by
FROM workflow FORCE INDEX (workflow_by_state) WHERE namespace = ? AND id < ? AND state = ? ORDER BY id DESC LIMIT ?
