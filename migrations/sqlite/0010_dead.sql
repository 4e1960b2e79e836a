-- The dead of a namespace are found in any crowd. A move that does not end among them touches no index.
CREATE INDEX task_dead ON task (namespace) WHERE state = 9;
