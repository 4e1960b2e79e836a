#!lua flags=no-writes
-- What the server's clock shows, asked by a script, so that the way there and a script are timed with it.
-- KEYS     none
-- ARGV     none
-- Returns  seconds since 1970, microseconds of that second
return redis.call('TIME')
