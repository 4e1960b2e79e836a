#!lua flags=allow-oom
-- All members are about to be restored. Changes nothing where they are there.
-- KEYS     1 whole (the server that has all members; '~', number, ':', server: its members are being restored)
-- ARGV     1 number of who restores them
-- Returns  1: they are there already; 0: from now on they are being restored
-- Which server this is: another one after a failover, and the same one after a restart, may lack what was answered last.
local function server()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''
end

local own = server()
if redis.call('GET', KEYS[1]) == own then
  return 1
end
redis.call('SET', KEYS[1], '~' .. ARGV[1] .. ':' .. own)
return 0
