-- Puts a value in the place of the one of a version. No row: another version stands.
-- Parameters: value, version.
UPDATE limiter SET state = ?, version = version + 1 WHERE one = 1 AND version = ?
