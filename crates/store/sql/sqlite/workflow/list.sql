-- Workflows of a namespace below an id, newest first. ?1 namespace, ?2 id, ?3 name (NULL: any), ?4 state (NULL: any), ?5 limit.
SELECT workflow.id, workflow.namespace, workflow.name, workflow.version, workflow.definition_id, workflow.step, workflow.state, workflow.progress,
    workflow.input, workflow.wake_at, workflow.created_at, workflow.updated_at, workflow.finished_at, workflow.created_by
FROM workflow WHERE namespace = ?1 AND id < ?2 AND (?3 IS NULL OR name = ?3) AND (?4 IS NULL OR state = ?4) ORDER BY id DESC LIMIT ?5
