#!lua flags=allow-oom
-- Whether nothing was lost of a partition since this was first asked in this term: leaves a note, and looks for it.
-- KEYS     1 whole (the newest term in which this was asked)  2 term (the newest that has drained here)
-- ARGV     1 term (8 bytes, in the order of their numbers)
-- Returns  1: the note was there; 0: it is there from now on; 8 bytes: the newest term seen here, which is newer, and
--          nothing was changed
local function older(term, other)
  local high, low = struct.unpack('>I4I4', term)
  local other_high, other_low = struct.unpack('>I4I4', other)
  return high < other_high or (high == other_high and low < other_low)
end

local note, drained = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])
local newest = note or drained
if note and drained and older(note, drained) then
  newest = drained
end
if newest and older(ARGV[1], newest) then
  return newest
end
if note == ARGV[1] then
  return 1
end
redis.call('SET', KEYS[1], ARGV[1])
return 0
