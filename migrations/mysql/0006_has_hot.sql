-- With each sign of life an engine says whether the hot set answers it: partitions go to those whom it does. An engine of
-- an older release says nothing, and counts as one that has it. Can be run again; MySQL 8 has no ADD COLUMN IF NOT EXISTS.
SET @alter_engine = IF((
    SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'engine' AND column_name = 'has_hot') = 0,
    'ALTER TABLE engine ADD COLUMN has_hot TINYINT NOT NULL DEFAULT 1', 'DO 0');
PREPARE alter_engine FROM @alter_engine;
EXECUTE alter_engine;
DEALLOCATE PREPARE alter_engine;
