-- A long payload, beside its task. ?1 task id, ?2 payload.
INSERT INTO body (id, payload) VALUES (?1, ?2)
ON CONFLICT (id) DO UPDATE SET payload = excluded.payload
