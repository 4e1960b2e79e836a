#!lua flags=allow-oom
-- All members have been restored, if nothing was lost since that began and nobody else has begun after it.
-- KEYS     1 whole (the server that has all members; '~', number, ':', server: its members are being restored)
-- ARGV     1 number of who has restored them
-- Returns  1: they are there; 0: some may have been lost again
-- Which server this is: another one after a failover, and the same one after a restart, may lack what was answered last.
local function server()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''
end

local own, note = server(), redis.call('GET', KEYS[1])
if note == '~' .. ARGV[1] .. ':' .. own then
  redis.call('SET', KEYS[1], own)
  return 1
end
return note == own and 1 or 0
