-- Workflows and the rows of their nodes, in the catalog.

-- name: advance
-- Advances a workflow if its step is the expected one. In the catalog.
-- parameters: 1 state, 2 progress (JSON), 3 wake_at (ms, NULL: never), 4 now (ms), 5 finished_at (ms, NULL: it is not
-- over), 6 id, 7 expected step.
UPDATE workflow SET step = step + 1, state = ?, progress = ?, wake_at = ?, updated_at = ?, finished_at = ? WHERE id = ? AND step = ?

-- name: find_definition
-- Finds the document with a hash. In the catalog.
-- parameters: 1 namespace, 2 name (empty: none), 3 hash.
SELECT id, version, used_at FROM workflow_definition WHERE namespace = ? AND name = ? AND hash = ?

-- name: read_contents
-- Reads what the rows of some nodes carry. In the catalog.
-- parameters: 1 the nodes (JSON), 2 workflow.
SELECT workflow_node.node, workflow_node.item, workflow_node.role, workflow_node.result, workflow_node.error, workflow_node.items
FROM JSON_TABLE(?, '$[*]' COLUMNS (node INT PATH '$')) AS wanted
STRAIGHT_JOIN workflow_node FORCE INDEX (PRIMARY) ON workflow_node.workflow_id = ? AND workflow_node.node = wanted.node

-- name: create
-- Inserts a workflow, unless its key is taken. In the catalog.
-- parameters: 1 namespace, 2 name (empty: none), 3 version, 4 document, 5 slot, 6 key (NULL: none), 7 progress
-- (JSON), 8 input (JSON), 9 wake_at (ms), 10 now (ms), 11 now (ms), 12 created by.
INSERT IGNORE INTO workflow
    (namespace, name, version, definition_id, slot, dedup_key, step, state, progress, input, wake_at, created_at, updated_at, created_by)
VALUES (?, ?, ?, ?, ?, ?, 1, 1, ?, ?, ?, ?, ?, ?)

-- name: insert_definition
-- Inserts a document. In the catalog.
-- parameters: 1 namespace, 2 name (empty: none), 3 version, 4 hash, 5 body (JSON), 6 now (ms), 7 now (ms).
INSERT IGNORE INTO workflow_definition (namespace, name, version, hash, body, created_at, used_at) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: read_definition
-- Reads a document. In the catalog.
-- parameters: 1 id.
SELECT id, namespace, body, version FROM workflow_definition WHERE id = ?

-- name: list_due
-- Lists workflows whose wake_at has come, the longest overdue first. In the catalog.
-- parameters: 1 now (ms), 2 slots (bits), 3 limit.
SELECT workflow.id, workflow.namespace, workflow.name, workflow.version, workflow.definition_id, workflow.step, workflow.state, workflow.progress,
    workflow.input, workflow.wake_at, workflow.created_at, workflow.updated_at, workflow.finished_at, workflow.created_by
FROM workflow FORCE INDEX (workflow_wake) WHERE wake_at <= ? AND (? >> slot) & 1 = 1 ORDER BY wake_at, slot LIMIT ?

-- name: delete
-- Deletes a workflow. In the catalog.
-- parameters: 1 id.
DELETE FROM workflow WHERE id = ?

-- name: delete_definition
-- Deletes a document without a name that nothing uses. In the catalog.
-- parameters: 1 used before this (ms), 2 id.
DELETE FROM workflow_definition WHERE name = '' AND used_at < ? AND id = ? AND NOT EXISTS (SELECT 1 FROM workflow WHERE workflow.definition_id = workflow_definition.id)

-- name: delete_definitions
-- Deletes the documents of a namespace. In the catalog.
-- parameters: 1 namespace, 2 limit.
DELETE FROM workflow_definition WHERE namespace = ? LIMIT ?

-- name: delete_rows
-- Deletes rows of a workflow. In the catalog.
-- parameters: 1 workflow, 2 limit.
DELETE FROM workflow_node WHERE workflow_id = ? LIMIT ?

-- name: find_by_key
-- Finds the workflow that was created with a key. In the catalog.
-- parameters: 1 namespace, 2 key.
SELECT workflow.id, workflow.namespace, workflow.name, workflow.version, workflow.definition_id, workflow.step, workflow.state, workflow.progress,
    workflow.input, workflow.wake_at, workflow.created_at, workflow.updated_at, workflow.finished_at, workflow.created_by
FROM workflow WHERE namespace = ? AND dedup_key = ?

-- name: list
-- Lists the workflows of a namespace below an id, the newest first. In the catalog.
-- parameters: 1 namespace, 2 below this id, 3 limit.
SELECT workflow.id, workflow.namespace, workflow.name, workflow.version, workflow.definition_id, workflow.step, workflow.state, workflow.progress,
    workflow.input, workflow.wake_at, workflow.created_at, workflow.updated_at, workflow.finished_at, workflow.created_by
FROM workflow FORCE INDEX (workflow_listed) WHERE namespace = ? AND id < ? ORDER BY id DESC LIMIT ?

-- name: list_in_state
-- Lists the workflows of a namespace in one state, below an id, the newest first. In the catalog.
-- parameters: 1 namespace, 2 below this id, 3 state, 4 limit.
SELECT workflow.id, workflow.namespace, workflow.name, workflow.version, workflow.definition_id, workflow.step, workflow.state, workflow.progress,
    workflow.input, workflow.wake_at, workflow.created_at, workflow.updated_at, workflow.finished_at, workflow.created_by
FROM workflow FORCE INDEX (workflow_by_state) WHERE namespace = ? AND id < ? AND state = ? ORDER BY id DESC LIMIT ?

-- name: list_named
-- Lists the workflows of a namespace of one name, below an id, the newest first. In the catalog.
-- parameters: 1 namespace, 2 below this id, 3 name, 4 limit.
SELECT workflow.id, workflow.namespace, workflow.name, workflow.version, workflow.definition_id, workflow.step, workflow.state, workflow.progress,
    workflow.input, workflow.wake_at, workflow.created_at, workflow.updated_at, workflow.finished_at, workflow.created_by
FROM workflow FORCE INDEX (workflow_by_name) WHERE namespace = ? AND id < ? AND name = ? ORDER BY id DESC LIMIT ?

-- name: list_named_in_state
-- Lists the workflows of a namespace of one name in one state, below an id, the newest first. In the catalog.
-- parameters: 1 namespace, 2 below this id, 3 name, 4 state, 5 limit.
SELECT workflow.id, workflow.namespace, workflow.name, workflow.version, workflow.definition_id, workflow.step, workflow.state, workflow.progress,
    workflow.input, workflow.wake_at, workflow.created_at, workflow.updated_at, workflow.finished_at, workflow.created_by
FROM workflow FORCE INDEX (workflow_by_name) WHERE namespace = ? AND id < ? AND name = ? AND state = ? ORDER BY id DESC LIMIT ?

-- name: set_tasks
-- Saves the tasks that were created for rows.
-- parameters: 1 the rows (JSON: [node, item, role, attempt, reference]), 2 workflow.
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    node INT PATH '$[0]', item INT PATH '$[1]', role INT PATH '$[2]', attempt INT PATH '$[3]',
    task_ref VARCHAR(64) CHARACTER SET ascii PATH '$[4]'
)) AS made
STRAIGHT_JOIN workflow_node FORCE INDEX (PRIMARY) ON workflow_node.workflow_id = ? AND workflow_node.node = made.node
    AND workflow_node.item = made.item AND workflow_node.role = made.role
SET workflow_node.task_ref = made.task_ref
WHERE workflow_node.task_ref IS NULL AND workflow_node.attempt = made.attempt

-- name: insert_marks
-- Marks workflows of which a part may end. In the catalog.
-- parameters: 1 now (ms), 2 the marks (JSON: [id, workflow, slot]).
INSERT IGNORE INTO workflow_mark (id, workflow_id, slot, marked_at)
SELECT id, workflow_id, slot, ?
FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$[0]', workflow_id BIGINT PATH '$[1]', slot INT PATH '$[2]')) AS wanted

-- name: list_marks
-- Lists marks from before an instant, the oldest first. In the catalog.
-- parameters: 1 marked before (ms), 2 slots (bits), 3 limit.
SELECT id, workflow_id FROM workflow_mark FORCE INDEX (workflow_mark_age)
WHERE marked_at < ? AND (? >> slot) & 1 = 1 ORDER BY marked_at, slot LIMIT ?

-- name: find_next_wake
-- Finds the earliest wake_at of all workflows; no row: none has one.
SELECT wake_at FROM workflow WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1

-- name: list_of_namespace
-- Lists workflows of a namespace. In the catalog.
-- parameters: 1 namespace, 2 limit.
SELECT id, definition_id FROM workflow WHERE namespace = ? LIMIT ?

-- name: read
-- Reads a workflow. In the catalog.
-- parameters: 1 id.
SELECT workflow.id, workflow.namespace, workflow.name, workflow.version, workflow.definition_id, workflow.step, workflow.state, workflow.progress,
    workflow.input, workflow.wake_at, workflow.created_at, workflow.updated_at, workflow.finished_at, workflow.created_by
FROM workflow WHERE id = ?

-- name: list_finished
-- Lists workflows that ended before an instant. In the catalog.
-- parameters: 1 finished before (ms), 2 limit.
SELECT id, definition_id FROM workflow WHERE finished_at < ? ORDER BY finished_at LIMIT ?

-- name: save_rows
-- Saves rows. The task reference stays while the attempt is the same, and items stay as they were first.
-- parameters: 1 workflow, 2 the rows (JSON: [node, item, role, state, attempt, order, item count, begun (ms), ended
-- (ms), result, error, items]).
INSERT INTO workflow_node
    (workflow_id, node, item, role, state, attempt, done_order, item_count, begun_at, ended_at, result, error, items)
SELECT ?, node, item, role, state, attempt, done_order, item_count, begun_at, ended_at, result, error, items
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    node INT PATH '$[0]', item INT PATH '$[1]', role INT PATH '$[2]', state INT PATH '$[3]', attempt INT PATH '$[4]',
    done_order BIGINT PATH '$[5]', item_count INT PATH '$[6]', begun_at BIGINT PATH '$[7]', ended_at BIGINT PATH '$[8]',
    result LONGTEXT CHARACTER SET utf8mb4 PATH '$[9]', error LONGTEXT CHARACTER SET utf8mb4 PATH '$[10]',
    items LONGTEXT CHARACTER SET utf8mb4 PATH '$[11]'
)) AS wanted
ON DUPLICATE KEY UPDATE
    task_ref = IF(workflow_node.attempt = VALUES(attempt), workflow_node.task_ref, NULL),
    begun_at = IF(VALUES(state) = 1 AND workflow_node.state <> 1, VALUES(begun_at), workflow_node.begun_at),
    ended_at = VALUES(ended_at), state = VALUES(state), attempt = VALUES(attempt), done_order = VALUES(done_order),
    item_count = VALUES(item_count), result = VALUES(result), error = VALUES(error), items = COALESCE(workflow_node.items, VALUES(items))

-- name: list_rows
-- Lists the rows of a workflow. In the catalog.
-- parameters: 1 workflow.
SELECT node, item, role, state, attempt, done_order, item_count, task_ref, begun_at, ended_at
FROM workflow_node WHERE workflow_id = ?

-- name: delete_marks
-- Deletes marks. In the catalog.
-- parameters: 1 their ids (JSON).
DELETE workflow_mark FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) AS gone
STRAIGHT_JOIN workflow_mark FORCE INDEX (PRIMARY) ON workflow_mark.id = gone.id

-- name: touch_definition
-- Saves when a document was last used. In the catalog.
-- parameters: 1 now (ms), 2 id.
UPDATE workflow_definition SET used_at = ? WHERE id = ?

-- name: next_version
-- Computes the next version of a document. In the catalog.
-- parameters: 1 namespace, 2 name (empty: none).
SELECT COALESCE(MAX(version), 0) + 1 FROM workflow_definition WHERE namespace = ? AND name = ?
