-- With each sign of life an engine says which databases its writers do not reach (their numbers, with commas between; empty:
-- it reaches all): their partitions go to engines that do. An engine of an older release says nothing (NULL), and nothing is
-- concluded from it. Can be run again; MySQL 8 has no ADD COLUMN IF NOT EXISTS.
SET @alter_engine = IF((
    SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'engine' AND column_name = 'without_databases') = 0,
    'ALTER TABLE engine ADD COLUMN without_databases VARCHAR(1000) CHARACTER SET ascii NULL', 'DO 0');
PREPARE alter_engine FROM @alter_engine;
EXECUTE alter_engine;
DEALLOCATE PREPARE alter_engine;
