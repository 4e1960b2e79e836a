#!lua flags=no-writes
-- Lanes of a queue in which something is parked.
-- KEYS     1 parked (ZSET without scores: lane, score in 8 bytes, id, task id)
-- ARGV     1 limit (lanes)  2 the lane after which to begin, or ''
--          lane: kind, length of its text in 2 bytes, text
-- Returns  for each: lane, how many are parked in it
local from, found = ARGV[2] == '' and '-' or '(' .. ARGV[2] .. '\255', {}
for _ = 1, tonumber(ARGV[1]) do
  local first = redis.call('ZRANGEBYLEX', KEYS[1], from, '+', 'LIMIT', 0, 1)[1]
  if not first then
    break
  end
  local lane = string.sub(first, 1, 3 + struct.unpack('>I2', first, 2))
  from = '(' .. lane .. '\255'
  found[#found + 1], found[#found + 2] = lane, redis.call('ZLEXCOUNT', KEYS[1], '[' .. lane, '[' .. lane .. '\255')
end
return found
