-- Deletes marks. In the catalog. 1 their ids (JSON).
DELETE workflow_mark FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) AS gone
STRAIGHT_JOIN workflow_mark FORCE INDEX (PRIMARY) ON workflow_mark.id = gone.id
