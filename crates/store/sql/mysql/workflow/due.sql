-- Workflows that are to be looked at, the longest ago first. In the catalog. 1 now (ms), 2 slots (bits), 3 limit.
SELECT workflow.id, workflow.namespace, workflow.name, workflow.version, workflow.definition_id, workflow.step, workflow.state, workflow.progress,
    workflow.input, workflow.wake_at, workflow.created_at, workflow.updated_at, workflow.finished_at, workflow.created_by
FROM workflow FORCE INDEX (workflow_wake) WHERE wake_at <= ? AND (? >> slot) & 1 = 1 ORDER BY wake_at, slot LIMIT ?
