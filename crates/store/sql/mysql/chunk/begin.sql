-- From here on all that is inserted is entered; what stands already has ids below.
INSERT IGNORE INTO meta (name, value) SELECT 'chunks_below', COALESCE(MAX(id) + 1, 0) FROM registry
