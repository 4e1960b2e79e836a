-- The number of the next change of a token.
UPDATE meta SET value = value + 1 WHERE key = 'access_revision' RETURNING value
