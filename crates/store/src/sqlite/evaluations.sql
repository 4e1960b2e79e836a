-- Marks of subjects that are being evaluated: a subject at which engines die is set aside.

-- name: mark
-- Marks a subject that is about to be evaluated.
-- parameters: ?1 kind, ?2 id, ?3 engine, ?4 turn, ?5 namespace, ?6 name, ?7 now (ms).
INSERT INTO evaluation (kind, id, engine, turn, namespace, name, begun_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT DO NOTHING

-- name: unmark
-- Deletes the mark of one turn.
-- parameters: ?1 kind, ?2 id, ?3 engine, ?4 turn.
DELETE FROM evaluation WHERE kind = ?1 AND id = ?2 AND engine = ?3 AND turn = ?4

-- name: list_ended
-- Lists subjects with marks of other engines that no longer exist or are finished: workflows in other states than 1
-- and 2, bulk operations in other states than 1, 2 and 3. There are few marks at any time.
-- parameters: ?1 engine of the caller, ?2 limit.
SELECT DISTINCT kind, id FROM evaluation
WHERE engine <> ?1 AND CASE kind
    WHEN 1 THEN NOT EXISTS (SELECT 1 FROM schedule WHERE schedule.id = evaluation.id)
    WHEN 2 THEN NOT EXISTS (SELECT 1 FROM workflow WHERE workflow.id = evaluation.id AND workflow.state IN (1, 2))
    WHEN 3 THEN NOT EXISTS (SELECT 1 FROM bulk WHERE bulk.id = evaluation.id AND bulk.state IN (1, 2, 3))
    ELSE FALSE
END
LIMIT ?2

-- name: delete_marks_of_engine
-- Deletes all marks of an engine that stops. There are few marks at any time.
-- parameters: ?1 engine.
DELETE FROM evaluation WHERE engine = ?1

-- name: count_other_engines
-- Counts the other engines that have marked a subject.
-- parameters: ?1 kind, ?2 id, ?3 engine.
SELECT COUNT(DISTINCT engine) FROM evaluation WHERE kind = ?1 AND id = ?2 AND engine <> ?3

-- name: delete_dead_marks
-- Deletes the marks of dead engines at a subject.
-- parameters: ?1 kind, ?2 id, ?3 engine of the caller.
DELETE FROM evaluation WHERE kind = ?1 AND id = ?2 AND engine <> ?3

-- name: list_set_aside
-- Lists the subjects at which a number of engines have died: kind, id, namespace, name, time of the last mark (ms),
-- and how many engines. There are few marks at any time.
-- parameters: ?1 engine of the caller, ?2 number of engines, ?3 limit.
SELECT kind, id, MAX(namespace), MAX(name), MAX(begun_at), COUNT(DISTINCT engine) FROM evaluation
WHERE engine <> ?1 GROUP BY kind, id HAVING COUNT(DISTINCT engine) >= ?2 ORDER BY kind, id LIMIT ?3
