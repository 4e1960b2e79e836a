-- Room that a row is inserted with and gives up as it grows: 200 bytes. A page that InnoDB has filled with rows has no place
-- for what their moves add (a hundred bytes at the hand-over, fifty at the outcome), and was rebuilt and split for it. Says
-- nothing; no statement reads it. Each statement can be run again. FORCE: as in 0004_control. Rows that stand already have
-- none. task_left is there only while a bucket leaves.

SET @alter_task = IF((
    SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'task') > 0 AND (
    SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'task' AND column_name = 'room') = 0,
    'ALTER TABLE task ADD COLUMN room VARBINARY(255) NOT NULL DEFAULT '''', FORCE, ALGORITHM = INPLACE', 'DO 0');
PREPARE alter_task FROM @alter_task;
EXECUTE alter_task;
DEALLOCATE PREPARE alter_task;
SET @alter_task = IF((
    SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'task_gone') > 0 AND (
    SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'task_gone' AND column_name = 'room') = 0,
    'ALTER TABLE task_gone ADD COLUMN room VARBINARY(255) NOT NULL DEFAULT '''', FORCE, ALGORITHM = INPLACE', 'DO 0');
PREPARE alter_task FROM @alter_task;
EXECUTE alter_task;
DEALLOCATE PREPARE alter_task;
SET @alter_task = IF((
    SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'task_left') > 0 AND (
    SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'task_left' AND column_name = 'room') = 0,
    'ALTER TABLE task_left ADD COLUMN room VARBINARY(255) NOT NULL DEFAULT '''', FORCE, ALGORITHM = INPLACE', 'DO 0');
PREPARE alter_task FROM @alter_task;
EXECUTE alter_task;
DEALLOCATE PREPARE alter_task;
ALTER TABLE task ALTER COLUMN room SET DEFAULT
    '                                                                                                                                                                                                        ';
ALTER TABLE task_gone ALTER COLUMN room SET DEFAULT
    '                                                                                                                                                                                                        ';
