#!lua flags=allow-oom
-- All members have been restored, if nothing was lost since that began and nobody else has begun after it.
-- KEYS     1 whole (the history that has all members; '~', number, ':', history: they are being restored in it)
-- ARGV     1 number of who has restored them
-- Returns  1: they are there; 0: some may have been lost again

-- The history that this server writes: another one after a failover or a restart, which may lack what was answered last.
local function history()
  return string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or ''
end

local own, note = history(), redis.call('GET', KEYS[1])
if note == '~' .. ARGV[1] .. ':' .. own then
  redis.call('SET', KEYS[1], own)
  return 1
end
return note == own and 1 or 0
