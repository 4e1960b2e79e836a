-- The first token can be made with a time in which requests without one are still accepted. NULL: a token is required from its
-- creation on. An engine of an older release requires one at once. Can be run again; MySQL 8 has no ADD COLUMN IF NOT EXISTS.
SET @alter_token = IF((
    SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'token' AND column_name = 'required_at') = 0,
    'ALTER TABLE token ADD COLUMN required_at BIGINT', 'DO 0');
PREPARE alter_token FROM @alter_token;
EXECUTE alter_token;
DEALLOCATE PREPARE alter_token;
