-- Where the tasks of a queue are: chunks of 1,024 ids. A row a chunk and not a row a task, so that an insert costs next to nothing.

-- That tasks of a queue and a kind are, or were, among the ids of a chunk (id / 1024). Only a hint where to look: the task's row
-- decides. Entered in the transaction that inserts.
CREATE TABLE task_chunk (
    namespace TEXT NOT NULL,
    -- Empty, and so the kind: that the namespace has tasks there. '*', and an empty kind: that any queue may have some.
    queue TEXT NOT NULL,
    chunk INTEGER NOT NULL,
    kind TEXT NOT NULL,
    PRIMARY KEY (namespace, queue, chunk, kind)
) STRICT, WITHOUT ROWID;

-- Rows go by their chunks, of all queues.
CREATE INDEX task_chunk_of ON task_chunk (chunk);

-- A replacement, or a move to another queue.
CREATE TRIGGER task_chunk_changed AFTER UPDATE OF queue, kind ON task WHEN old.queue <> new.queue OR old.kind <> new.kind BEGIN
    INSERT OR IGNORE INTO task_chunk (namespace, queue, chunk, kind)
    VALUES (new.namespace, new.queue, new.id / 1024, new.kind);
END;

-- A chunk that has no task any more, and gets none: ids ascend.
CREATE TRIGGER task_chunk_gone AFTER DELETE ON task
WHEN NOT EXISTS (SELECT 1 FROM task WHERE id >= old.id / 1024 * 1024 AND id < old.id / 1024 * 1024 + 1024)
    AND old.id / 1024 < (SELECT value FROM meta WHERE key = 'last_id') / 1024 BEGIN
    DELETE FROM task_chunk WHERE chunk = old.id / 1024;
END;

-- Tasks below this id are not entered yet; 0: all are.
INSERT INTO meta (key, value) SELECT 'chunks_below', coalesce(max(id) + 1, 0) FROM task;
