#!lua flags=no-writes
-- Reads what is due at or before `until`, in order of (due_at, id), after a position. Moves nothing.
-- KEYS     1 due (ZSET, id by due_at in ms)  2 body (HASH, id to body)
-- ARGV     1 until (ms)  2 limit (entries, at most 1000)  and, to go on after a position:  3 due_at (ms)  4 id (8 bytes)
-- Returns  for each: id, body
local CHUNK = 500

-- Ids are ordered as Redis orders members: by their bytes. Lua's own order of strings depends on the locale.
local function before(id, other)
  local high, low = struct.unpack('>I4I4', id)
  local other_high, other_low = struct.unpack('>I4I4', other)
  return high < other_high or (high == other_high and low < other_low)
end

-- The rank of the first that stands after (due_at, id), whether or not that one is still there. Many may be due at
-- one instant: they are halved, not walked.
local function rank_after(due_at, id)
  local low = redis.call('ZCOUNT', KEYS[1], '-inf', '(' .. due_at)
  local high = low + redis.call('ZCOUNT', KEYS[1], due_at, due_at)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if before(id, redis.call('ZRANGE', KEYS[1], middle, middle)[1]) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

local first = 0
if ARGV[3] then
  first = rank_after(ARGV[3], ARGV[4])
end
local last = math.min(first + tonumber(ARGV[2]), redis.call('ZCOUNT', KEYS[1], '-inf', ARGV[1])) - 1
if last < first then
  return {}
end
local ids, found = redis.call('ZRANGE', KEYS[1], first, last), {}
for i = 1, #ids, CHUNK do
  local bodies = redis.call('HMGET', KEYS[2], unpack(ids, i, math.min(i + CHUNK - 1, #ids)))
  for n, body in ipairs(bodies) do
    if body then
      found[#found + 1], found[#found + 2] = ids[i + n - 1], body
    end
  end
end
return found
