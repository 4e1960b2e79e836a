-- Labels that queues have declared to be found fast, and what tasks are looked up by besides their ids. The same tables in
-- every database. Each statement can be run again.

-- What this database enters in `lookup`, as of its pause_epoch: like the pauses, it is spread from the settings in the
-- catalog, and whoever inserts a task with labels holds the epoch.
CREATE TABLE IF NOT EXISTS indexed_label (
    namespace VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    queue VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- A label's key, UTF-8
    label VARBINARY(512) NOT NULL,
    -- Tasks that stood here when it was declared have ids below this.
    begun_id BIGINT NOT NULL,
    -- Of those, the ones below this are not entered yet; NULL: all are
    below_id BIGINT,
    PRIMARY KEY (namespace, queue, label)
) ENGINE = InnoDB;

-- From a term (a number made of a label, see store::mysql::lookup) to the tasks that may have it, by their ids. Only a hint
-- where to look: the task's row decides. Entered and deleted with the task; may be left over when a label is no longer
-- declared. A queue that declares nothing has no rows here.
CREATE TABLE IF NOT EXISTS lookup (
    term BIGINT NOT NULL,
    id BIGINT NOT NULL,
    partition_no INT NOT NULL,
    PRIMARY KEY (term, id),
    KEY lookup_of (partition_no, id)
) ENGINE = InnoDB;
