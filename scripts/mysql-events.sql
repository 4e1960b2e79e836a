-- Buckets kept by the database's own event scheduler, for operators who prefer it to the engine. Run once in every
-- database of the store, by a user that may create routines and events:
--     mysql DATABASE < scripts/mysql-events.sql
-- and switch the scheduler on (SET GLOBAL event_scheduler = ON). It does what the engine does, in the same steps and
-- under the same lock (store/src/mysql/buckets.rs), so both at once do no harm; running it again replaces it.
-- Three things only an engine (or `punctual shard archive`) can do. Cutting: an engine makes buckets for centuries, wide ones
-- for what is far away, and cuts them as they come near; from here only those of the next days are made, in a database that
-- no engine has looked at yet. Archives: a database that has them (archive.url of its
-- engines) gets its buckets ahead from here, and nothing of it is ever dropped from here. Carrying over: a bucket in
-- which a task is still needed stays, until an engine has moved that task to the present.
-- Periods, widths and retention stand in the event at the end. All times are UTC, in ms.

DELIMITER //

DROP PROCEDURE IF EXISTS punctual_buckets_ahead //
-- Makes buckets until there is one for every instant of the next `ahead_hours`.
CREATE PROCEDURE punctual_buckets_ahead(IN now_ms BIGINT, IN width_hours INT, IN ahead_hours INT)
BEGIN
    DECLARE width_ms, begins_at, ends_at BIGINT;
    SET width_ms = width_hours * 3600000;
    SELECT MAX(CAST(PARTITION_DESCRIPTION AS SIGNED)) INTO begins_at
    FROM information_schema.PARTITIONS
    WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'task' AND PARTITION_DESCRIPTION <> 'MAXVALUE';
    SET begins_at = COALESCE(begins_at, now_ms - now_ms MOD width_ms);
    SET @punctual_new = '';
    WHILE begins_at <= now_ms + ahead_hours * 3600000 DO
        SET ends_at = begins_at - begins_at MOD width_ms + width_ms;
        -- Time in which nobody made buckets becomes one.
        SET ends_at = GREATEST(ends_at, now_ms - now_ms MOD width_ms);
        SET @punctual_new = CONCAT(@punctual_new, 'PARTITION ',
            DATE_FORMAT(DATE_ADD('1970-01-01', INTERVAL begins_at DIV 1000 SECOND), 'p%Y%m%d%H'),
            ' VALUES LESS THAN (', ends_at, '), ');
        SET begins_at = ends_at;
    END WHILE;
    -- They would be copied while nobody can write.
    IF @punctual_new <> '' AND (SELECT COUNT(*) FROM (SELECT 1 FROM task PARTITION (pmax) LIMIT 10001) AS few) <= 10000 THEN
        SET @punctual_new = CONCAT('ALTER TABLE task REORGANIZE PARTITION pmax INTO (', @punctual_new,
            'PARTITION pmax VALUES LESS THAN MAXVALUE)');
        PREPARE punctual_change FROM @punctual_new;
        EXECUTE punctual_change;
        DEALLOCATE PREPARE punctual_change;
    END IF;
END //

DROP PROCEDURE IF EXISTS punctual_change_bucket //
-- `change_text` with the bucket's name in the place of the braces.
CREATE PROCEDURE punctual_change_bucket(IN change_text VARCHAR(200), IN bucket_name VARCHAR(64))
BEGIN
    SET @punctual_change = REPLACE(change_text, '{name}', bucket_name);
    PREPARE punctual_change FROM @punctual_change;
    EXECUTE punctual_change;
    DEALLOCATE PREPARE punctual_change;
END //

DROP PROCEDURE IF EXISTS punctual_clear_left //
-- A bucket has left task as a table: what came into it at the last moment is put back, and the table goes.
CREATE PROCEDURE punctual_clear_left()
BEGIN
    IF EXISTS (SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'task_left') THEN
        START TRANSACTION;
        INSERT INTO task SELECT * FROM task_left;
        DELETE FROM task_left;
        COMMIT;
        DROP TABLE task_left;
    END IF;
END //

DROP PROCEDURE IF EXISTS punctual_leave //
-- An empty bucket. Where the server can (MariaDB from 10.7 on) it leaves as a table: a drop could wait for the purge, in
-- steps of a second, while everybody waits for it.
CREATE PROCEDURE punctual_leave(IN bucket_name VARCHAR(64))
BEGIN
    IF VERSION() REGEXP '^(1[1-9]|10\\.([7-9]|1[0-9]))\\..*MariaDB' THEN
        CALL punctual_change_bucket('ALTER TABLE task CONVERT PARTITION {name} TO TABLE task_left', bucket_name);
        CALL punctual_clear_left();
    ELSE
        CALL punctual_change_bucket('ALTER TABLE task DROP PARTITION {name}', bucket_name);
    END IF;
END //

DROP PROCEDURE IF EXISTS punctual_settle //
-- Account, registry, moved and body of what is in task_gone, a thousand tasks a transaction; then empties it.
-- FORCE INDEX: after a swap the server knows nothing of how many rows there are.
CREATE PROCEDURE punctual_settle(IN now_ms BIGINT)
BEGIN
    DECLARE from_p, to_p INT;
    DECLARE from_due, from_id, to_due, to_id BIGINT;
    DECLARE leaving, locked_one INT DEFAULT 0;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SELECT partition_no, due_at, id INTO from_p, from_due, from_id FROM gone_to WHERE one = 1;
    WHILE EXISTS (SELECT 1 FROM task_gone FORCE INDEX (PRIMARY) WHERE partition_no > from_p
        OR (partition_no = from_p AND due_at > from_due)
        OR (partition_no = from_p AND due_at = from_due AND id > from_id) LIMIT 1)
    DO
        SET to_p = 2147483647, to_due = 9223372036854775807, to_id = 9223372036854775807;
        SELECT partition_no, due_at, id INTO to_p, to_due, to_id FROM task_gone FORCE INDEX (PRIMARY)
        WHERE partition_no > from_p
            OR (partition_no = from_p AND due_at > from_due)
            OR (partition_no = from_p AND due_at = from_due AND id > from_id)
        ORDER BY partition_no, due_at, id LIMIT 1 OFFSET 999;
        START TRANSACTION;
        -- Whoever inserts the id of such a task again takes it back, and holds this meanwhile.
        SELECT one INTO locked_one FROM gone_to WHERE one = 1 FOR UPDATE;
        -- A partition that is about to leave takes its account along: it must stand still meanwhile.
        SELECT COALESCE(SUM(state = 2), 0) INTO leaving FROM hosted WHERE state IN (1, 2) LOCK IN SHARE MODE;
        IF leaving > 0 THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a partition is moving to another database; again at the next run';
        END IF;
        CREATE TEMPORARY TABLE IF NOT EXISTS punctual_batch (
            partition_no INT NOT NULL, due_at BIGINT NOT NULL, id BIGINT NOT NULL, is_over TINYINT NOT NULL,
            PRIMARY KEY (partition_no, due_at, id));
        DELETE FROM punctual_batch;
        INSERT INTO punctual_batch
        SELECT partition_no, due_at, id, state IN (9, 10, 11) AND keep_until <= now_ms FROM task_gone FORCE INDEX (PRIMARY)
        WHERE (partition_no > from_p
                OR (partition_no = from_p AND due_at > from_due)
                OR (partition_no = from_p AND due_at = from_due AND id > from_id))
            AND (partition_no < to_p
                OR (partition_no = to_p AND due_at < to_due)
                OR (partition_no = to_p AND due_at = to_due AND id <= to_id));
        DELETE registry FROM punctual_batch STRAIGHT_JOIN task_gone FORCE INDEX (PRIMARY) USING (partition_no, due_at, id)
        STRAIGHT_JOIN registry FORCE INDEX (PRIMARY) ON registry.partition_no = task_gone.partition_no
            AND registry.namespace = task_gone.namespace AND registry.task_id = task_gone.task_id
            AND registry.task_version = task_gone.task_version AND registry.id = task_gone.id
        WHERE punctual_batch.is_over;
        DELETE moved FROM punctual_batch
        STRAIGHT_JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = punctual_batch.partition_no AND moved.id = punctual_batch.id
        WHERE punctual_batch.is_over;
        DELETE body FROM punctual_batch
        STRAIGHT_JOIN body FORCE INDEX (PRIMARY) ON body.partition_no = punctual_batch.partition_no AND body.id = punctual_batch.id
        WHERE punctual_batch.is_over;
        INSERT INTO task SELECT task_gone.* FROM punctual_batch
        STRAIGHT_JOIN task_gone FORCE INDEX (PRIMARY) USING (partition_no, due_at, id) WHERE NOT punctual_batch.is_over
            AND task_gone.partition_no IN (SELECT hosted.partition_no FROM hosted WHERE hosted.state IN (1, 2));
        INSERT INTO books (slot, namespace, queue, state, tasks)
        SELECT -1, task_gone.namespace, task_gone.queue, task_gone.state, -COUNT(*) FROM punctual_batch
        STRAIGHT_JOIN task_gone FORCE INDEX (PRIMARY) USING (partition_no, due_at, id) WHERE punctual_batch.is_over
            AND task_gone.partition_no IN (SELECT hosted.partition_no FROM hosted WHERE hosted.state IN (1, 2))
        GROUP BY task_gone.namespace, task_gone.queue, task_gone.state
        ON DUPLICATE KEY UPDATE tasks = books.tasks + VALUES(tasks);
        INSERT INTO counters (slot, name, value)
        SELECT -1, 'deleted', COUNT(*) FROM punctual_batch WHERE is_over
            AND partition_no IN (SELECT hosted.partition_no FROM hosted WHERE hosted.state IN (1, 2))
        ON DUPLICATE KEY UPDATE value = counters.value + VALUES(value);
        UPDATE gone_to SET partition_no = to_p, due_at = to_due, id = to_id WHERE one = 1;
        COMMIT;
        SET from_p = to_p, from_due = to_due, from_id = to_id;
    END WHILE;
    DROP TEMPORARY TABLE IF EXISTS punctual_batch;
    IF EXISTS (SELECT 1 FROM task_gone LIMIT 1) THEN
        TRUNCATE TABLE task_gone;
    END IF;
END //

DROP PROCEDURE IF EXISTS punctual_buckets_drop //
-- Drops the buckets that ended more than `keep_hours` ago and in which all is over.
-- Nothing where there are archives: what is in task_gone may be in none yet.
CREATE PROCEDURE punctual_buckets_drop(IN now_ms BIGINT, IN keep_hours INT)
old_ones: BEGIN
    DECLARE bucket_name VARCHAR(64);
    DECLARE begins_at, ends_at BIGINT;
    DECLARE looked_at, last_p INT;
    DECLARE needed INT DEFAULT 0;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    IF EXISTS (SELECT 1 FROM meta WHERE name = 'archive_place') THEN
        LEAVE old_ones;
    END IF;
    CALL punctual_clear_left();
    CALL punctual_settle(now_ms);
    SET begins_at = -9223372036854775807;
    buckets: LOOP
        SET bucket_name = NULL;
        SELECT PARTITION_NAME, CAST(PARTITION_DESCRIPTION AS SIGNED) INTO bucket_name, ends_at
        FROM information_schema.PARTITIONS
        WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'task' AND PARTITION_DESCRIPTION <> 'MAXVALUE'
            AND CAST(PARTITION_DESCRIPTION AS SIGNED) > begins_at
            AND CAST(PARTITION_DESCRIPTION AS SIGNED) <= now_ms - keep_hours * 3600000
        ORDER BY PARTITION_ORDINAL_POSITION LIMIT 1;
        IF bucket_name IS NULL THEN
            LEAVE buckets;
        END IF;
        -- One partition of the store at a time, so that no statement is long.
        SET looked_at = 0, needed = 0;
        SELECT COALESCE(MAX(partition_no), -1) INTO last_p FROM task
        WHERE due_at >= begins_at AND due_at < ends_at;
        WHILE needed = 0 AND looked_at <= last_p DO
            SET needed = EXISTS (SELECT 1 FROM task
                WHERE partition_no = looked_at AND due_at >= begins_at AND due_at < ends_at
                    AND (state NOT IN (9, 10, 11) OR keep_until > now_ms) LIMIT 1);
            SET looked_at = looked_at + 1;
        END WHILE;
        IF needed = 0 THEN
            IF last_p >= 0 THEN
                UPDATE gone_to SET partition_no = -1, due_at = 0, id = 0 WHERE one = 1;
                COMMIT;
                CALL punctual_change_bucket('ALTER TABLE task EXCHANGE PARTITION {name} WITH TABLE task_gone', bucket_name);
            END IF;
            IF NOT EXISTS (SELECT 1 FROM task WHERE due_at >= begins_at AND due_at < ends_at LIMIT 1) THEN
                CALL punctual_leave(bucket_name);
            END IF;
            CALL punctual_settle(now_ms);
        END IF;
        SET begins_at = ends_at;
    END LOOP;
END //

DROP PROCEDURE IF EXISTS punctual_buckets //
-- Both, if nobody else is at it.
CREATE PROCEDURE punctual_buckets(IN now_ms BIGINT, IN width_hours INT, IN ahead_hours INT, IN keep_hours INT)
BEGIN
    -- As the engine names it. MySQL has no SHA1 from 9.6 on: there the comments are read, and what stands between them is a text.
    DECLARE lock_name VARCHAR(64) DEFAULT CONCAT('punctual ',
        /*!90600 LEFT(SHA2(DATABASE(), 256), 40 + 0 * LENGTH(' */ SHA1(DATABASE()) /*!90600 ')) */);
    DECLARE locked INT DEFAULT 0;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK;
        DO RELEASE_LOCK(lock_name);
        RESIGNAL;
    END;
    SET SESSION lock_wait_timeout = 1;
    SET locked = GET_LOCK(lock_name, 0);
    IF locked = 1 THEN
        CALL punctual_buckets_ahead(now_ms, width_hours, ahead_hours);
        CALL punctual_buckets_drop(now_ms, keep_hours);
        DO RELEASE_LOCK(lock_name);
    END IF;
END //

DROP EVENT IF EXISTS punctual_buckets //
-- Buckets of 24 hours, 8 days ahead; kept for 7 days.
CREATE EVENT punctual_buckets ON SCHEDULE EVERY 1 HOUR DO
    CALL punctual_buckets(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000, 24, 192, 168) //

DELIMITER ;
