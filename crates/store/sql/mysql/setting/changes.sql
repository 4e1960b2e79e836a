-- The changes of a scope, the newest first. 1 namespace, 2 queue, 3 below this revision, 4 limit.
SELECT revision, body, changed_at, changed_by FROM setting_change
WHERE namespace = ? AND queue = ? AND revision < ? ORDER BY revision DESC LIMIT ?
