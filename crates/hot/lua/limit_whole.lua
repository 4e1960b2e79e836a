#!lua flags=allow-oom
-- Whether all members are there; before and after they are restored, too. The note of another history is taken away.
-- KEYS     1 whole (the history that has all members; '~', number, ':', history: they are being restored in it)
-- ARGV     1 what is asked: 'look': changes nothing else
--            'begin': all members are about to be restored; changes nothing where they are there
--            'end': all have been restored, if nothing was lost since 'begin' and nobody else has begun after it
--          2 number of who restores them ('begin' and 'end')
-- Returns  1: they are there; 0: some may have been lost; after 'begin', they are being restored

-- The history that this server writes: another one after a failover or a restart, which may lack what was answered last.
local own = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or ''
local note = redis.call('GET', KEYS[1])
if note == own then
  return 1
end
if ARGV[1] == 'begin' then
  redis.call('SET', KEYS[1], '~' .. ARGV[2] .. ':' .. own)
elseif ARGV[1] == 'end' and note == '~' .. ARGV[2] .. ':' .. own then
  redis.call('SET', KEYS[1], own)
  return 1
elseif ARGV[1] == 'look' and note and string.sub(note, 1, 1) ~= '~' then
  redis.call('DEL', KEYS[1])
end
return 0
