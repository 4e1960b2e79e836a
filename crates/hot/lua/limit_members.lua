#!lua flags=no-writes
-- Members to be looked at by a time, in that order.
-- KEYS     1 members (HASH, member to its record)  2 until (ZSET, member by when to look at it, ms)
-- ARGV     1 until (ms)  2 how many to leave out  3 limit (at most 1000)
-- Returns  for each: member, its record, when to look at it (ms)
local CHUNK = 500
local found, answers = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[1], 'WITHSCORES', 'LIMIT', ARGV[2], ARGV[3]), {}
for first = 1, #found, 2 * CHUNK do
  local members = {}
  for i = first, math.min(first + 2 * CHUNK - 1, #found), 2 do
    members[#members + 1] = found[i]
  end
  for n, record in ipairs(redis.call('HMGET', KEYS[1], unpack(members))) do
    if record then
      answers[#answers + 1] = members[n]
      answers[#answers + 1] = record
      answers[#answers + 1] = found[first + 2 * n - 1]
    end
  end
end
return answers
