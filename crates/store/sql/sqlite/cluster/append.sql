-- Appends an event, unless one with its key stands. ?1 at (ms), ?2 kind, ?3 key, ?4 engine, ?5 text, ?6 details (JSON).
INSERT INTO event (at, kind, event_key, engine, text, details) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (event_key) DO NOTHING
