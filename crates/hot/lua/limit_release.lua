#!lua flags=allow-oom
-- Attempts give their places up.
-- KEYS     1 members (HASH, member to its record)  2 until (ZSET, member by when to look at it, ms)
--          3 holds (ZSET without scores: length of a scope's word in 2 bytes, the word, member)
-- ARGV     for each: member (id and fence in 8 bytes each), when it was granted (8 bytes; '': at whatever time), or else it
--          keeps its place
--          record: 26 bytes, how many scopes (2 bytes), for each the length of its word (2 bytes) and the word
-- Returns  for each: its record, and when it was to be looked at; or nothing twice: it held none
local function scopes_in(record)
  local words, at = {}, 29
  for n = 1, struct.unpack('>I2', record, 27) do
    local last = at + 1 + struct.unpack('>I2', record, at)
    words[n] = string.sub(record, at, last)
    at = last + 1
  end
  return words
end

-- Commands of many members: a command for each costs twice as much as the rest of the script. Lua passes at most 8,000 values.
local PASSED = 4000

local function each_part(command, key, values)
  for i = 1, #values, PASSED do
    redis.call(command, key, unpack(values, i, math.min(i + PASSED - 1, #values)))
  end
end

local members, records, until_ = {}, {}, {}
for i = 1, #ARGV, 2 do
  members[#members + 1] = ARGV[i]
end
for i = 1, #members, PASSED do
  local last = math.min(i + PASSED - 1, #members)
  local found = redis.call('HMGET', KEYS[1], unpack(members, i, last))
  local scores = redis.call('ZMSCORE', KEYS[2], unpack(members, i, last))
  for n = 1, last - i + 1 do
    records[members[i + n - 1]], until_[members[i + n - 1]] = found[n], scores[n]
  end
end

local answers, gone, holds = {}, {}, {}
for n, member in ipairs(members) do
  local record, granted_at = records[member], ARGV[2 * n]
  if record and granted_at ~= '' and granted_at ~= string.sub(record, 1, 8) then
    record = false
  end
  answers[#answers + 1] = record or false
  answers[#answers + 1] = record and until_[member] or false
  if record then
    for _, word in ipairs(scopes_in(record)) do
      holds[#holds + 1] = word .. member
    end
    gone[#gone + 1] = member
    -- A second time in this call it holds none.
    records[member] = nil
  end
end
each_part('ZREM', KEYS[3], holds)
each_part('HDEL', KEYS[1], gone)
each_part('ZREM', KEYS[2], gone)
return answers
