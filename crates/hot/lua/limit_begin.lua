#!lua flags=allow-oom
-- All members are about to be restored. Changes nothing where they are there.
-- KEYS     1 whole (the history that has all members; '~', number, ':', history: they are being restored in it)
-- ARGV     1 number of who restores them
-- Returns  1: they are there already; 0: from now on they are being restored

-- The history that this server writes: another one after a failover or a restart, which may lack what was answered last.
local function history()
  return string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or ''
end

local own = history()
if redis.call('GET', KEYS[1]) == own then
  return 1
end
redis.call('SET', KEYS[1], '~' .. ARGV[1] .. ':' .. own)
return 0
