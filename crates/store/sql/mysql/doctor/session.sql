-- The isolation of this connection, as MariaDB names it before 11.1, and MySQL since 8.0: name, value.
SHOW SESSION VARIABLES WHERE Variable_name IN ('tx_isolation', 'transaction_isolation')
