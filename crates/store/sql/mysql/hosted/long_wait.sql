-- As meta/session.sql.
SET SESSION innodb_lock_wait_timeout = 10
