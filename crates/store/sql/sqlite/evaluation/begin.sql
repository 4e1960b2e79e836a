-- Marks what is about to be evaluated. ?1 kind, ?2 id, ?3 engine, ?4 turn, ?5 namespace, ?6 name, ?7 now (ms).
INSERT INTO evaluation (kind, id, engine, turn, namespace, name, begun_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT DO NOTHING
