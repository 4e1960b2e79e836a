-- Removes the marks of one turn. In the catalog. 1 the ids (JSON), 2 kind, 3 engine, 4 turn.
DELETE evaluation FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) AS gone
STRAIGHT_JOIN evaluation FORCE INDEX (PRIMARY) ON evaluation.kind = ? AND evaluation.id = gone.id
    AND evaluation.engine = ? AND evaluation.turn = ?
