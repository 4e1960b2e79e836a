-- What the server is, and how it is set: name, value. Names that a server does not know are left out.
SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'log_bin', 'binlog_format', 'time_zone',
    'system_time_zone', 'max_allowed_packet', 'wait_timeout', 'innodb_lock_wait_timeout', 'max_connections', 'datadir',
    'tx_isolation', 'transaction_isolation', 'require_secure_transport')
