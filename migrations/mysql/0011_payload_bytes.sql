-- How many bytes the payloads of waiting tasks are: beside the number of tasks, in the account and in what a partition takes
-- along. Only the sum over the rows of a queue says something; a single row may be negative. Tasks that stand already are
-- not counted, an account of hundreds of millions of rows would be: `punctual shard repair` adds them. Can be run again;
-- MySQL 8 has no ADD COLUMN IF NOT EXISTS. An engine from before leaves the column alone.
SET @alter_account = IF((
    SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'books' AND column_name = 'bytes') = 0,
    'ALTER TABLE books ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0', 'DO 0');
PREPARE alter_account FROM @alter_account;
EXECUTE alter_account;
DEALLOCATE PREPARE alter_account;
SET @alter_account = IF((
    SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'taken_along' AND column_name = 'bytes') = 0,
    'ALTER TABLE taken_along ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0', 'DO 0');
PREPARE alter_account FROM @alter_account;
EXECUTE alter_account;
DEALLOCATE PREPARE alter_account;
