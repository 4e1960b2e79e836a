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

local answers = {}
for i = 1, #ARGV, 2 do
  local member, granted_at = ARGV[i], ARGV[i + 1]
  local record = redis.call('HGET', KEYS[1], member)
  if record and granted_at ~= '' and granted_at ~= string.sub(record, 1, 8) then
    record = false
  end
  answers[#answers + 1] = record
  answers[#answers + 1] = record and redis.call('ZSCORE', KEYS[2], member)
  if record then
    for _, word in ipairs(scopes_in(record)) do
      redis.call('ZREM', KEYS[3], word .. member)
    end
    redis.call('HDEL', KEYS[1], member)
    redis.call('ZREM', KEYS[2], member)
  end
end
return answers
