-- The first token can be made with a time in which requests without one are still accepted. NULL: a token is required from its
-- creation on.
ALTER TABLE token ADD COLUMN required_at INTEGER;
