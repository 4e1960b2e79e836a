#!lua flags=allow-oom
-- Whether all members are there. The note of another server is taken away: it must not count if that one comes back.
-- KEYS     1 whole (the server that has all members; '~', number, ':', server: its members are being restored)
-- ARGV     none
-- Returns  1: they are; 0: some may have been lost
-- Which server this is: another one after a failover, and the same one after a restart, may lack what was answered last.
local function server()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''
end

local note = redis.call('GET', KEYS[1])
if not note then
  return 0
end
local own = server()
if note == own then
  return 1
end
if string.sub(note, 1, 1) ~= '~' then
  redis.call('DEL', KEYS[1])
end
return 0
