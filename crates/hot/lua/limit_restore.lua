#!lua flags=allow-oom
-- These attempts hold places, whatever the limits say: they are in flight.
-- KEYS     1 members (HASH, member to its record)  2 until (ZSET, member by when to look at it, ms)
--          3 holds (ZSET without scores: length of a scope's word in 2 bytes, the word, member)
-- ARGV     for each: member (id and fence in 8 bytes each), until (ms), record
--          record: 26 bytes, how many scopes (2 bytes), for each the length of its word (2 bytes) and the word
-- Returns  how many
local function scopes_in(record)
  local words, at = {}, 29
  for n = 1, struct.unpack('>I2', record, 27) do
    local last = at + 1 + struct.unpack('>I2', record, at)
    words[n] = string.sub(record, at, last)
    at = last + 1
  end
  return words
end

for i = 1, #ARGV, 3 do
  local member, record = ARGV[i], ARGV[i + 2]
  local was = redis.call('HGET', KEYS[1], member)
  for _, word in ipairs(was and scopes_in(was) or {}) do
    redis.call('ZREM', KEYS[3], word .. member)
  end
  for _, word in ipairs(scopes_in(record)) do
    redis.call('ZADD', KEYS[3], 0, word .. member)
  end
  redis.call('HSET', KEYS[1], member, record)
  redis.call('ZADD', KEYS[2], ARGV[i + 1], member)
end
return #ARGV / 3
