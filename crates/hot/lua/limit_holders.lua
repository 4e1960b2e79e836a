#!lua flags=no-writes
-- Who holds a scope.
-- KEYS     1 members (HASH, member to its record)  2 until (ZSET, member by when to look at it, ms)
--          3 holds (ZSET without scores: length of a scope's word in 2 bytes, the word, member)
-- ARGV     1 the scope's word (with its length)  2 limit (at most 1000)
-- Returns  how many hold it; then for the first of them: member, its record, when to look at it (ms)
local top = string.rep('\255', 17)
local answers = { redis.call('ZLEXCOUNT', KEYS[3], '[' .. ARGV[1], '[' .. ARGV[1] .. top) }
for _, hold in ipairs(redis.call('ZRANGEBYLEX', KEYS[3], '[' .. ARGV[1], '[' .. ARGV[1] .. top, 'LIMIT', 0, ARGV[2])) do
  local member = string.sub(hold, #ARGV[1] + 1)
  answers[#answers + 1] = member
  answers[#answers + 1] = redis.call('HGET', KEYS[1], member)
  answers[#answers + 1] = redis.call('ZSCORE', KEYS[2], member)
end
return answers
