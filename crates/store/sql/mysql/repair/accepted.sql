-- Corrects what was accepted. 1 how many more (or, negative, fewer).
INSERT INTO counters (slot, name, value) VALUES (-2, 'accepted', ?)
ON DUPLICATE KEY UPDATE value = value + VALUES(value)
