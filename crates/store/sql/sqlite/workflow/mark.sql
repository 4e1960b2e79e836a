-- Notes that something of a workflow may end. ?1 id, ?2 workflow, ?3 slot, ?4 now (ms).
INSERT OR IGNORE INTO workflow_mark (id, workflow_id, slot, marked_at) VALUES (?1, ?2, ?3, ?4)
