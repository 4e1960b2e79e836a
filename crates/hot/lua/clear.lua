#!lua flags=allow-oom
-- Forgets all that is due in a partition: what is there is of a time that the store has lost.
-- KEYS     1 due (ZSET)  2 body (HASH)  3 term (the newest that has drained here)
-- ARGV     1 term (8 bytes, in the order of their numbers)
-- Returns  1: it is empty, and knows the term; 0: a newer term has been seen, and nothing was done
local function older(term, other)
  local high, low = struct.unpack('>I4I4', term)
  local other_high, other_low = struct.unpack('>I4I4', other)
  return high < other_high or (high == other_high and low < other_low)
end

local newest = redis.call('GET', KEYS[3])
if newest and older(ARGV[1], newest) then
  return 0
end
redis.call('SET', KEYS[3], ARGV[1])
redis.call('UNLINK', KEYS[1], KEYS[2])
return 1
