-- One commit, of the row that is there for it.
UPDATE meta SET value = value + 1 WHERE name = 'doctor'
