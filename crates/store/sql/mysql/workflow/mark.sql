-- Notes that something of workflows may end. In the catalog. 1 now (ms), 2 the marks (JSON: [id, workflow, slot]).
INSERT IGNORE INTO workflow_mark (id, workflow_id, slot, marked_at)
SELECT id, workflow_id, slot, ?
FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$[0]', workflow_id BIGINT PATH '$[1]', slot INT PATH '$[2]')) AS wanted
