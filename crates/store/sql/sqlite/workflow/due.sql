-- Workflows that are to be looked at, the longest ago first. ?1 slots (bits), ?2 now (ms), ?3 limit.
SELECT workflow.id, workflow.namespace, workflow.name, workflow.version, workflow.definition_id, workflow.step, workflow.state, workflow.progress,
    workflow.input, workflow.wake_at, workflow.created_at, workflow.updated_at, workflow.finished_at, workflow.created_by
FROM workflow WHERE wake_at <= ?2 AND (?1 >> slot) & 1 = 1 ORDER BY wake_at, slot LIMIT ?3
