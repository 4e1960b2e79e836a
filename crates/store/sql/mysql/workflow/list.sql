-- Workflows of a namespace below an id, newest first. In the catalog. Namespace, id, limit.
SELECT workflow.id, workflow.namespace, workflow.name, workflow.version, workflow.definition_id, workflow.step, workflow.state, workflow.progress,
    workflow.input, workflow.wake_at, workflow.created_at, workflow.updated_at, workflow.finished_at, workflow.created_by
FROM workflow FORCE INDEX (workflow_listed) WHERE namespace = ? AND id < ? ORDER BY id DESC LIMIT ?
