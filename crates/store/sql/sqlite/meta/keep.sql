-- Sets what is not set yet; what stands wins. ?1 key, ?2 value.
INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO NOTHING
