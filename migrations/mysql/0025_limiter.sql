-- What limits engines without Redis have granted: one value, which is changed by whoever knows the version that stands. The same
-- tables in every database; used in the catalog only. Each statement can be run again.

CREATE TABLE IF NOT EXISTS limiter (
    one TINYINT NOT NULL,
    version BIGINT NOT NULL,
    -- hot::stored; empty: nothing was granted yet
    state LONGBLOB NOT NULL,
    PRIMARY KEY (one)
) ENGINE = InnoDB;

INSERT IGNORE INTO limiter (one, version, state) VALUES (1, 0, '');
