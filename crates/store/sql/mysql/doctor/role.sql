-- Whether the user may have rights by a role, which the lists of rights do not show: how many.
SELECT COUNT(*) FROM information_schema.applicable_roles
