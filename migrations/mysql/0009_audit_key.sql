-- An entry of the audit may have a key, drawn by whoever may have to append it twice: it stands once. NULL: it was sent once.
-- Can be run again; MySQL 8 has no ADD COLUMN IF NOT EXISTS.
SET @alter_audit = IF((
    SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'audit' AND column_name = 'entry_key') = 0,
    'ALTER TABLE audit ADD COLUMN entry_key BINARY(16) NULL, ADD UNIQUE KEY audit_entry_key (entry_key)', 'DO 0');
PREPARE alter_audit FROM @alter_audit;
EXECUTE alter_audit;
DEALLOCATE PREPARE alter_audit;
