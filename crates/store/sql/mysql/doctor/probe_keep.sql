-- The row that commits are measured with, made once for that. Nothing else reads it.
INSERT IGNORE INTO meta (name, value) VALUES ('doctor', 0)
