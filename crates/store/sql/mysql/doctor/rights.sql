-- The rights that the user of this connection has on its database, here or on all: one a row.
SELECT CAST(privilege_type AS CHAR) FROM information_schema.user_privileges
WHERE REPLACE(grantee, '''', '') = CURRENT_USER()
UNION
SELECT CAST(privilege_type AS CHAR) FROM information_schema.schema_privileges
WHERE REPLACE(grantee, '''', '') = CURRENT_USER() AND DATABASE() LIKE table_schema
