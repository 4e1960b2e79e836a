-- Makes the user of the tests, who may do everything. Run once, by the command line client, as root. No parameters.
CREATE USER t@'127.0.0.1' IDENTIFIED BY 't';
GRANT ALL ON *.* TO t@'127.0.0.1' WITH GRANT OPTION;
