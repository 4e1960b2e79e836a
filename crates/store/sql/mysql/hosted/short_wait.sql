-- How long (s) closing a partition waits for transactions under way: all others of that partition wait behind it.
SET SESSION innodb_lock_wait_timeout = 1
