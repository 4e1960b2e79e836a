-- A change of the table waits this long (s) for statements that are under way; meanwhile all others wait behind it.
SET SESSION lock_wait_timeout = 1
