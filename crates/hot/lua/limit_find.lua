#!lua flags=no-writes
-- What members hold.
-- KEYS     1 members (HASH, member to its record)  2 until (ZSET, member by when to look at it, ms)
-- ARGV     for each: member (id and fence in 8 bytes each)
-- Returns  for each that holds something: member, its record, when to look at it (ms)
local answers = {}
for _, member in ipairs(ARGV) do
  local record = redis.call('HGET', KEYS[1], member)
  if record then
    answers[#answers + 1] = member
    answers[#answers + 1] = record
    answers[#answers + 1] = redis.call('ZSCORE', KEYS[2], member)
  end
end
return answers
