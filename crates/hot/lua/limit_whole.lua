#!lua flags=allow-oom
-- Whether all members are there. The note of another history is taken away.
-- KEYS     1 whole (the history that has all members; '~', number, ':', history: they are being restored in it)
-- ARGV     none
-- Returns  1: they are; 0: some may have been lost

-- The history that this server writes: another one after a failover or a restart, which may lack what was answered last.
local function history()
  return string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or ''
end

local note = redis.call('GET', KEYS[1])
if not note then
  return 0
end
local own = history()
if note == own then
  return 1
end
if string.sub(note, 1, 1) ~= '~' then
  redis.call('DEL', KEYS[1])
end
return 0
