-- An entry of the audit may have a key, drawn by whoever may have to append it twice: it stands once. NULL: it was sent once.
ALTER TABLE audit ADD COLUMN entry_key BLOB;
CREATE UNIQUE INDEX audit_entry_key ON audit (entry_key);
