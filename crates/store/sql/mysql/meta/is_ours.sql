-- Whether migrations are recorded in this database: 0 or 1.
SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'migration'
