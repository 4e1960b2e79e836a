-- The bucket must be empty. It leaves task as a table of its own. A drop would do it in one step, but while it holds up
-- everybody it waits for the server's purge, in steps of a second (MariaDB: purge_sys_t::stop_FTS in delete_table of a
-- partition). MariaDB from 10.7 on; others do not know the words.
-- Braces: name.
ALTER TABLE task CONVERT PARTITION {name} TO TABLE task_left
