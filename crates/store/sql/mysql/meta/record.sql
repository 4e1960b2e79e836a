-- Where migrations are recorded; made before the first of them, so that a database with it is one of ours.
CREATE TABLE IF NOT EXISTS migration (
    position INT NOT NULL,
    name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- SHA-256 of the file, in hex: an applied migration never changes.
    checksum VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (position)
) ENGINE = InnoDB
