-- Where retention has to look, and when: the same table in every database. Each statement can be run again.

-- A span of the key of `task`, in one partition: it ends with its own place, inclusive, and begins behind the end of the one
-- before it. The last one of a partition ends nowhere (the greatest numbers), and has what is due last. Only boundaries:
-- whatever is missing or too much here makes retention late or look once more, and never wrong.
CREATE TABLE IF NOT EXISTS retention_span (
    partition_no INT NOT NULL,
    due_at BIGINT NOT NULL,
    id BIGINT NOT NULL,
    -- Nothing in it that was finished when it was looked at is over before this (ms).
    look_at BIGINT NOT NULL,
    PRIMARY KEY (partition_no, due_at, id),
    KEY retention_span_look (look_at)
) ENGINE = InnoDB;
