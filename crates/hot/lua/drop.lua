#!lua flags=allow-oom
-- Forgets entries whose body cannot be read (another release wrote it), so that they can be loaded again.
-- KEYS     1 due (ZSET, id by due_at in ms)  2 firing (ZSET, id by fired_at in ms)  3 body (HASH, id to body)
-- ARGV     for each: id (8 bytes), body; what has another body by now is left alone
-- Returns  how many were forgotten
local dropped = 0
for i = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[3], ARGV[i]) == ARGV[i + 1] then
    redis.call('ZREM', KEYS[1], ARGV[i])
    redis.call('ZREM', KEYS[2], ARGV[i])
    dropped = dropped + redis.call('HDEL', KEYS[3], ARGV[i])
  end
end
return dropped
