-- There are new archives: whoever has seen another number lists them again.
INSERT INTO meta (name, value) VALUES ('archived', 1) ON DUPLICATE KEY UPDATE value = value + 1
