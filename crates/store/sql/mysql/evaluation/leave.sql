-- Removes all marks of an engine that stops. There are few marks at any time. In the catalog. 1 engine.
DELETE FROM evaluation WHERE engine = ?
