-- Labels that queues have declared to be found fast, and the tasks that have them.

-- Spread from the settings in the transaction that changes them.
CREATE TABLE indexed_label (
    namespace TEXT NOT NULL,
    queue TEXT NOT NULL,
    -- A label's key
    label TEXT NOT NULL,
    -- Tasks that stood when it was declared have ids below this.
    begun_id INTEGER NOT NULL,
    -- Of those, the ones below this are not entered yet; NULL: all are
    below_id INTEGER,
    PRIMARY KEY (namespace, queue, label)
) STRICT, WITHOUT ROWID;

-- From a label, `key=value`, to the tasks that may have it. Only a hint where to look: the task's row decides. Kept by the
-- triggers below; may be left over when a label is no longer declared.
CREATE TABLE task_label (
    namespace TEXT NOT NULL,
    label TEXT NOT NULL,
    id INTEGER NOT NULL,
    PRIMARY KEY (namespace, label, id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER task_label_made AFTER INSERT ON task WHEN new.labels IS NOT NULL BEGIN
    INSERT OR IGNORE INTO task_label (namespace, label, id)
    SELECT new.namespace, it.key || '=' || it.value, new.id
    FROM indexed_label JOIN json_each(new.labels) AS it ON it.key = indexed_label.label
    WHERE indexed_label.namespace = new.namespace AND indexed_label.queue = new.queue;
END;

-- A replacement, which may be in another queue and have other labels.
CREATE TRIGGER task_label_changed AFTER UPDATE OF labels, queue ON task
WHEN old.labels IS NOT NULL OR new.labels IS NOT NULL BEGIN
    DELETE FROM task_label WHERE namespace = old.namespace AND id = old.id
        AND label IN (SELECT it.key || '=' || it.value FROM json_each(old.labels) AS it);
    INSERT OR IGNORE INTO task_label (namespace, label, id)
    SELECT new.namespace, it.key || '=' || it.value, new.id
    FROM indexed_label JOIN json_each(new.labels) AS it ON it.key = indexed_label.label
    WHERE indexed_label.namespace = new.namespace AND indexed_label.queue = new.queue;
END;

CREATE TRIGGER task_label_gone AFTER DELETE ON task WHEN old.labels IS NOT NULL BEGIN
    DELETE FROM task_label WHERE namespace = old.namespace AND id = old.id
        AND label IN (SELECT it.key || '=' || it.value FROM json_each(old.labels) AS it);
END;
