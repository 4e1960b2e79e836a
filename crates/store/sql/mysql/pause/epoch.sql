-- Of which revision the pauses are that this database holds to. Held, shared, to the end of a transaction that hands
-- tasks over: a pause that comes meanwhile waits for it, and whoever comes after that pause sees another epoch.
SELECT value AS pause_epoch FROM meta WHERE name = 'pause_epoch' LOCK IN SHARE MODE
