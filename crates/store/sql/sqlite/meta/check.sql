-- Writes a page that nothing rests on, so that whether it can be written is known. ?1 key.
INSERT INTO meta (key, value) VALUES (?1, 1) ON CONFLICT (key) DO UPDATE SET value = value + 1
