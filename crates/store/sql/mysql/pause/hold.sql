-- Of which revision the pauses are, locked: those that are paused are read before it changes. In the catalog.
SELECT value FROM meta WHERE name = 'pauses_revision' FOR UPDATE
