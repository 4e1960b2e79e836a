-- By what settings the server may lose what it has acknowledged, or refuses to store anything.
SELECT CAST(@@GLOBAL.innodb_flush_log_at_trx_commit AS SIGNED), CAST(@@GLOBAL.log_bin AS SIGNED),
    CAST(@@GLOBAL.sync_binlog AS SIGNED), CAST(@@GLOBAL.read_only AS SIGNED)
