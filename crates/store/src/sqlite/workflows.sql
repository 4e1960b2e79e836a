-- Workflows and the rows of their nodes.

-- name: advance
-- Advances a workflow if its step is the expected one.
-- parameters: ?1 id, ?2 expected step, ?3 state, ?4 progress (JSON), ?5 wake_at (ms, NULL: never), ?6 now (ms),
-- ?7 finished_at (ms, NULL: it is not over).
UPDATE workflow SET step = step + 1, state = ?3, progress = ?4, wake_at = ?5, updated_at = ?6, finished_at = ?7 WHERE id = ?1 AND step = ?2

-- name: find_definition
-- Finds the document with a hash.
-- parameters: ?1 namespace, ?2 name (empty: none), ?3 hash.
SELECT id, version, used_at FROM workflow_definition WHERE namespace = ?1 AND name = ?2 AND hash = ?3

-- name: read_contents
-- Reads what the rows of a node carry.
-- parameters: ?1 workflow, ?2 node.
SELECT node, item, role, result, error, items FROM workflow_node WHERE workflow_id = ?1 AND node = ?2

-- name: create
-- Inserts a workflow, unless its key is taken.
-- parameters: ?1 namespace, ?2 name (empty: none), ?3 version, ?4 document, ?5 slot, ?6 key (NULL: none), ?7 progress
-- (JSON), ?8 input (JSON), ?9 wake_at (ms), ?10 now (ms), ?11 created by.
INSERT INTO workflow
    (namespace, name, version, definition_id, slot, dedup_key, step, state, progress, input, wake_at, created_at, updated_at, created_by)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, 1, ?7, ?8, ?9, ?10, ?10, ?11) ON CONFLICT DO NOTHING

-- name: insert_definition
-- Inserts a document, as the next version of its name.
-- parameters: ?1 namespace, ?2 name (empty: none), ?3 hash, ?4 body (JSON), ?5 now (ms).
INSERT INTO workflow_definition (namespace, name, version, hash, body, created_at, used_at)
SELECT ?1, ?2, COALESCE(MAX(version), 0) + 1, ?3, ?4, ?5, ?5 FROM workflow_definition WHERE namespace = ?1 AND name = ?2

-- name: read_definition
-- Reads a document.
-- parameters: ?1 id.
SELECT id, namespace, body, version FROM workflow_definition WHERE id = ?1

-- name: list_due
-- Lists workflows whose wake_at has come, the longest overdue first.
-- parameters: ?1 slots (bits), ?2 now (ms), ?3 limit.
SELECT workflow.id, workflow.namespace, workflow.name, workflow.version, workflow.definition_id, workflow.step, workflow.state, workflow.progress,
    workflow.input, workflow.wake_at, workflow.created_at, workflow.updated_at, workflow.finished_at, workflow.created_by
FROM workflow WHERE wake_at <= ?2 AND (?1 >> slot) & 1 = 1 ORDER BY wake_at, slot LIMIT ?3

-- name: delete
-- Deletes a workflow.
-- parameters: ?1 id.
DELETE FROM workflow WHERE id = ?1

-- name: delete_definition
-- Deletes a document without a name that nothing uses.
-- parameters: ?1 used before this (ms), ?2 id.
DELETE FROM workflow_definition WHERE name = '' AND used_at < ?1 AND id = ?2
    AND NOT EXISTS (SELECT 1 FROM workflow WHERE workflow.definition_id = workflow_definition.id)

-- name: delete_definitions
-- Deletes the documents of a namespace.
-- parameters: ?1 namespace, ?2 limit.
DELETE FROM workflow_definition WHERE id IN (SELECT id FROM workflow_definition WHERE namespace = ?1 LIMIT ?2)

-- name: delete_rows
-- Deletes rows of a workflow.
-- parameters: ?1 workflow.
DELETE FROM workflow_node WHERE workflow_id = ?1

-- name: find_by_key
-- Finds the workflow that was created with a key.
-- parameters: ?1 namespace, ?2 key.
SELECT workflow.id, workflow.namespace, workflow.name, workflow.version, workflow.definition_id, workflow.step, workflow.state, workflow.progress,
    workflow.input, workflow.wake_at, workflow.created_at, workflow.updated_at, workflow.finished_at, workflow.created_by
FROM workflow WHERE namespace = ?1 AND dedup_key = ?2

-- name: list
-- Lists the workflows of a namespace below an id, the newest first.
-- parameters: ?1 namespace, ?2 id, ?3 name (NULL: any), ?4 state (NULL: any), ?5 limit.
SELECT workflow.id, workflow.namespace, workflow.name, workflow.version, workflow.definition_id, workflow.step, workflow.state, workflow.progress,
    workflow.input, workflow.wake_at, workflow.created_at, workflow.updated_at, workflow.finished_at, workflow.created_by
FROM workflow WHERE namespace = ?1 AND id < ?2 AND (?3 IS NULL OR name = ?3) AND (?4 IS NULL OR state = ?4) ORDER BY id DESC LIMIT ?5

-- name: set_task
-- Saves the task that was created for a row.
-- parameters: ?1 workflow, ?2 node, ?3 item, ?4 role, ?5 attempt, ?6 reference.
UPDATE workflow_node SET task_ref = ?6
WHERE workflow_id = ?1 AND node = ?2 AND item = ?3 AND role = ?4 AND task_ref IS NULL AND attempt = ?5

-- name: insert_mark
-- Marks a workflow of which a part may end.
-- parameters: ?1 id, ?2 workflow, ?3 slot, ?4 now (ms).
INSERT OR IGNORE INTO workflow_mark (id, workflow_id, slot, marked_at) VALUES (?1, ?2, ?3, ?4)

-- name: list_marks
-- Lists marks from before an instant, the oldest first.
-- parameters: ?1 slots (bits), ?2 marked before (ms), ?3 limit.
SELECT id, workflow_id FROM workflow_mark WHERE marked_at < ?2 AND (?1 >> slot) & 1 = 1 ORDER BY marked_at, slot LIMIT ?3

-- name: find_next_wake
-- Finds the earliest wake_at of all workflows; no row: none has one.
SELECT wake_at FROM workflow WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1

-- name: list_of_namespace
-- Lists workflows of a namespace.
-- parameters: ?1 namespace, ?2 limit.
SELECT id, definition_id FROM workflow WHERE namespace = ?1 LIMIT ?2

-- name: read
-- Reads a workflow.
-- parameters: ?1 id.
SELECT workflow.id, workflow.namespace, workflow.name, workflow.version, workflow.definition_id, workflow.step, workflow.state, workflow.progress,
    workflow.input, workflow.wake_at, workflow.created_at, workflow.updated_at, workflow.finished_at, workflow.created_by
FROM workflow WHERE id = ?1

-- name: list_finished
-- Lists workflows that ended before an instant.
-- parameters: ?1 finished before (ms), ?2 limit.
SELECT id, definition_id FROM workflow WHERE finished_at < ?1 ORDER BY finished_at LIMIT ?2

-- name: save_row
-- Saves a row. The task reference stays while the attempt is the same, and items stay as they were first.
-- parameters: ?1 workflow, ?2 node, ?3 item, ?4 role, ?5 state, ?6 attempt, ?7 order, ?8 item count, ?9 begun (ms),
-- ?10 ended (ms), ?11 result, ?12 error, ?13 items.
INSERT INTO workflow_node
    (workflow_id, node, item, role, state, attempt, done_order, item_count, begun_at, ended_at, result, error, items)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
ON CONFLICT (workflow_id, node, item, role) DO UPDATE SET
    task_ref = CASE WHEN attempt = ?6 THEN task_ref END,
    begun_at = CASE WHEN ?5 = 1 AND state <> 1 THEN ?9 ELSE begun_at END,
    ended_at = ?10, state = ?5, attempt = ?6, done_order = ?7, item_count = ?8, result = ?11, error = ?12, items = COALESCE(items, ?13)

-- name: list_rows
-- Lists the rows of a workflow.
-- parameters: ?1 workflow.
SELECT node, item, role, state, attempt, done_order, item_count, task_ref, begun_at, ended_at
FROM workflow_node WHERE workflow_id = ?1

-- name: delete_mark
-- Deletes a mark.
-- parameters: ?1 id.
DELETE FROM workflow_mark WHERE id = ?1

-- name: touch_definition
-- Saves when a document was last used.
-- parameters: ?1 now (ms), ?2 id.
UPDATE workflow_definition SET used_at = ?1 WHERE id = ?2
