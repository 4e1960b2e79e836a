-- The inbox: one table in a user's own database, and nothing of Punctual's (inbox.rs). Its statements run there.

-- name: create_table
-- Creates the table. Its comment has its format, and a name that no other inbox has.
-- holes: {unique} that name, {table} name of the table.
CREATE TABLE IF NOT EXISTS `{table}` (
    id BIGINT NOT NULL AUTO_INCREMENT,
    `key` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL COMMENT 'identity of the task; NULL: one of its own',
    task_version BIGINT NOT NULL DEFAULT 0 COMMENT 'of one key, a higher version supersedes a lower one',
    namespace VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT 'default',
    queue VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    kind VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL COMMENT 'selects the handler; NULL: default',
    name VARCHAR(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL COMMENT 'for people',
    execute_at_ms BIGINT NULL COMMENT 'UTC, epoch milliseconds; this or delay_ms; neither: now',
    delay_ms BIGINT NULL COMMENT 'milliseconds from the INSERT',
    priority BIGINT NULL COMMENT '1 (first) to 5 (last); NULL: 3',
    payload MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL COMMENT 'JSON, kept letter for letter',
    payload_bytes MEDIUMBLOB NULL COMMENT 'instead of payload',
    labels TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL COMMENT 'JSON object of texts',
    max_attempts BIGINT NULL COMMENT 'NULL: as the queue is set',
    retry TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL COMMENT 'JSON, as in the API; NULL: as the queue is set',
    timeout_ms BIGINT NULL,
    deadline_ms BIGINT NULL,
    concurrency_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    handler_versions VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    traceparent VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    options TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL COMMENT 'JSON object: other fields of a task, as in the API; a column that is set wins',
    created_at_ms BIGINT NOT NULL DEFAULT (CAST(ROUND(UNIX_TIMESTAMP(CURRENT_TIMESTAMP(3)) * 1000) AS SIGNED))
        COMMENT 'leave it out',
    offered_at_ms BIGINT NULL COMMENT 'of the relay',
    refused_at_ms BIGINT NULL COMMENT 'of the relay; NULL: waits',
    refused_why VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL COMMENT 'of the relay',
    PRIMARY KEY (id),
    KEY waiting (refused_at_ms, id),
    CONSTRAINT `{table}_key` CHECK (OCTET_LENGTH(`key`) BETWEEN 1 AND 128),
    CONSTRAINT `{table}_namespace` CHECK (namespace <> '' AND namespace NOT REGEXP '[^A-Za-z0-9._:-]'),
    CONSTRAINT `{table}_queue` CHECK (queue <> '' AND queue NOT REGEXP '[^A-Za-z0-9._:-]'),
    CONSTRAINT `{table}_kind` CHECK (kind <> '' AND kind NOT REGEXP '[^A-Za-z0-9._:-]'),
    CONSTRAINT `{table}_name` CHECK (name <> ''),
    CONSTRAINT `{table}_one_time` CHECK (execute_at_ms IS NULL OR delay_ms IS NULL),
    CONSTRAINT `{table}_execute_at_ms` CHECK (execute_at_ms BETWEEN 978307200000 AND 253402300799999),
    CONSTRAINT `{table}_delay_ms` CHECK (delay_ms BETWEEN 0 AND 3155760000000),
    CONSTRAINT `{table}_priority` CHECK (priority BETWEEN 1 AND 5),
    CONSTRAINT `{table}_one_payload` CHECK (payload IS NULL OR payload_bytes IS NULL),
    CONSTRAINT `{table}_payload` CHECK (JSON_VALID(payload)),
    CONSTRAINT `{table}_labels` CHECK (JSON_VALID(labels) AND JSON_TYPE(labels) = 'OBJECT'),
    CONSTRAINT `{table}_max_attempts` CHECK (max_attempts BETWEEN 1 AND 1000),
    CONSTRAINT `{table}_retry` CHECK (JSON_VALID(retry) AND JSON_TYPE(retry) = 'OBJECT'),
    CONSTRAINT `{table}_options` CHECK (JSON_VALID(options) AND JSON_TYPE(options) = 'OBJECT'),
    CONSTRAINT `{table}_timeout_ms` CHECK (timeout_ms BETWEEN 1 AND 315576000000),
    CONSTRAINT `{table}_deadline_ms` CHECK (deadline_ms BETWEEN 1 AND 315576000000),
    CONSTRAINT `{table}_concurrency_key` CHECK (concurrency_key <> ''),
    CONSTRAINT `{table}_handler_versions` CHECK (handler_versions <> '')
) ENGINE = InnoDB COMMENT = 'punctual inbox 1 {unique}'

-- name: make_name
-- Makes a name that no other table has.
SELECT CAST(UUID() AS CHAR)

-- name: create_limits
-- Creates the view of what the columns take, for people and programs.
-- holes: {table} name of the table.
CREATE OR REPLACE VIEW `{table}_limits` (column_name, least, most, rule) AS
SELECT 'key', 1, 128, 'bytes, compared exactly'
UNION ALL SELECT 'namespace, queue, kind', 1, 128, 'characters, of A-Z a-z 0-9 . _ : -'
UNION ALL SELECT 'name', 1, 256, 'characters'
UNION ALL SELECT 'execute_at_ms', 978307200000, 253402300799999, 'UTC, epoch milliseconds; without delay_ms'
UNION ALL SELECT 'delay_ms', 0, 3155760000000, 'milliseconds from the INSERT; without execute_at_ms'
UNION ALL SELECT 'priority', 1, 5, '1 is first'
UNION ALL SELECT 'payload, payload_bytes', 0, 16777215, 'bytes, of one of them; the engine takes 1048576 unless limits.payload_max_bytes or payloads.url say otherwise'
UNION ALL SELECT 'labels', 0, 32, 'texts, in a JSON object'
UNION ALL SELECT 'max_attempts', 1, 1000, 'attempts'
UNION ALL SELECT 'timeout_ms, deadline_ms', 1, 315576000000, 'milliseconds'
UNION ALL SELECT 'concurrency_key', 1, 256, 'characters'
UNION ALL SELECT 'handler_versions', 1, 128, 'characters'

-- name: drop
-- Drops both, with what is in them.
-- holes: {table} name of the table.
DROP VIEW IF EXISTS `{table}_limits`;
DROP TABLE IF EXISTS `{table}`

-- name: read_comment
-- Reads the comment of the table; no row: there is none.
-- holes: {table} name of the table.
SELECT CAST(table_comment AS CHAR) FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name = '{table}'

-- name: set_idle_timeout
-- The server closes the connection of a relay that asks nothing for 15 s, and with it goes the lock. No transaction of this
-- connection waits long for a row that the user's own has locked.
SET SESSION wait_timeout = 15, innodb_lock_wait_timeout = 2

-- name: hold
-- Takes the lock of the relay that moves rows; it is released when the connection ends.
-- holes: {table} name of the table.
-- answers: 1, or 0 if another connection has it.
SELECT CAST(GET_LOCK(CONCAT('punctual_inbox/', LEFT(SHA2(CONCAT(DATABASE(), IF('{table}' = 'punctual_inbox', '', '/{table}')), 256), 40)), 0) AS SIGNED)

-- name: list_heads
-- Lists rows that wait, by number, without their payloads.
-- parameters: 1 above this number, 2 limit.
-- holes: {table} name of the table.
SELECT id, namespace, queue, `key`,
    CAST(COALESCE(OCTET_LENGTH(payload), 0) + COALESCE(OCTET_LENGTH(payload_bytes), 0) AS SIGNED)
FROM `{table}` FORCE INDEX (waiting)
WHERE refused_at_ms IS NULL AND id > ? ORDER BY id LIMIT ?

-- name: read_rows
-- Reads rows that wait, by number.
-- holes: {ids} their numbers, {table} name of the table.
SELECT id, namespace, queue, `key`, created_at_ms,
    CAST(ROUND(UNIX_TIMESTAMP(CURRENT_TIMESTAMP(3)) * 1000) AS SIGNED) - created_at_ms,
    CAST(ROUND(UNIX_TIMESTAMP(CURRENT_TIMESTAMP(3)) * 1000) AS SIGNED) - offered_at_ms,
    task_version, kind, name, execute_at_ms, delay_ms, priority, payload, payload_bytes, labels, max_attempts, retry,
    timeout_ms, deadline_ms, concurrency_key, handler_versions, traceparent, options
FROM `{table}` WHERE id IN ({ids}) AND refused_at_ms IS NULL ORDER BY id

-- name: mark_offered
-- Notes that rows are offered, unless that is noted.
-- holes: {ids} their numbers, {table} name of the table.
UPDATE `{table}` SET offered_at_ms = CAST(ROUND(UNIX_TIMESTAMP(CURRENT_TIMESTAMP(3)) * 1000) AS SIGNED)
WHERE id IN ({ids}) AND offered_at_ms IS NULL

-- name: withdraw_offer
-- Takes that back.
-- holes: {ids} their numbers, {table} name of the table.
UPDATE `{table}` SET offered_at_ms = NULL WHERE id IN ({ids})

-- name: remove
-- Removes rows that are tasks.
-- holes: {ids} their numbers, {table} name of the table.
DELETE FROM `{table}` WHERE id IN ({ids})

-- name: refuse
-- Sets one row aside.
-- parameters: 1 why, 2 whether it may be a task all the same (0 or 1), 3 its number.
-- holes: {table} name of the table.
UPDATE `{table}` SET refused_at_ms = CAST(ROUND(UNIX_TIMESTAMP(CURRENT_TIMESTAMP(3)) * 1000) AS SIGNED),
    refused_why = ?, offered_at_ms = IF(? = 1, offered_at_ms, NULL)
WHERE id = ?

-- name: count
-- Counts rows that wait, and reads the age of the first, and counts those that were refused.
-- parameters: 1 and 2 most rows that are counted.
-- holes: {table} name of the table.
SELECT (SELECT COUNT(*) FROM (SELECT id FROM `{table}` FORCE INDEX (waiting) WHERE refused_at_ms IS NULL
        LIMIT ?) AS waiting_rows),
    (SELECT CAST(ROUND(UNIX_TIMESTAMP(CURRENT_TIMESTAMP(3)) * 1000) AS SIGNED) - created_at_ms
        FROM `{table}` FORCE INDEX (waiting) WHERE refused_at_ms IS NULL ORDER BY id LIMIT 1),
    (SELECT COUNT(*) FROM (SELECT id FROM `{table}` FORCE INDEX (waiting) WHERE refused_at_ms IS NOT NULL
        LIMIT ?) AS refused_rows)

-- name: list_refused
-- Lists the rows that were refused last.
-- parameters: 1 limit.
-- holes: {table} name of the table.
SELECT id, queue, `key`, refused_at_ms, refused_why FROM `{table}` FORCE INDEX (waiting)
WHERE refused_at_ms IS NOT NULL ORDER BY refused_at_ms DESC, id DESC LIMIT ?
