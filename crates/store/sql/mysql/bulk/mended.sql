-- Tasks that are no failures any more. In the catalog. 1 the rows (JSON: [bulk, id]).
DELETE bulk_failure
FROM JSON_TABLE(?, '$[*]' COLUMNS (bulk BIGINT PATH '$[0]', task BIGINT PATH '$[1]')) AS wanted
STRAIGHT_JOIN bulk_failure FORCE INDEX (PRIMARY) ON bulk_failure.bulk_id = wanted.bulk AND bulk_failure.id = wanted.task
