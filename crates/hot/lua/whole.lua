#!lua flags=allow-oom
-- Whether nothing was lost of a partition since this was first asked in this term: leaves a note, and looks for it.
-- KEYS     1 whole (the newest term in which this was asked)
-- ARGV     1 term (8 bytes, in the order of their numbers)
-- Returns  1: the note was there, or that of a newer term; 0: it is there from now on
local function older(term, other)
  local high, low = struct.unpack('>I4I4', term)
  local other_high, other_low = struct.unpack('>I4I4', other)
  return high < other_high or (high == other_high and low < other_low)
end

local note = redis.call('GET', KEYS[1])
if note and (note == ARGV[1] or older(ARGV[1], note)) then
  return 1
end
redis.call('SET', KEYS[1], ARGV[1])
return 0
