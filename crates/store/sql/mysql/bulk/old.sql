-- Operations that have not changed for long and are not at work (states 1, 4 and 5). In the catalog. 1 before (ms), 2 limit.
SELECT id FROM bulk FORCE INDEX (bulk_updated) WHERE updated_at < ? AND state IN (1, 4, 5) ORDER BY updated_at LIMIT ?
