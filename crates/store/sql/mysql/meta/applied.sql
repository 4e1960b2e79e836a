-- Records a migration that has been applied. 1 position, 2 name, 3 checksum.
INSERT INTO migration (position, name, checksum) VALUES (?, ?, ?)
