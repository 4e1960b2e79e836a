#!lua flags=no-writes
-- How many members scopes have.
-- KEYS     1 holds (ZSET without scores: length of a scope's word in 2 bytes, the word, member)
-- ARGV     for each scope: its word (with its length)
-- Returns  for each scope: how many members it has
local TOP, answers = string.rep('\255', 17), {}
for n, word in ipairs(ARGV) do
  answers[n] = redis.call('ZLEXCOUNT', KEYS[1], '[' .. word, '[' .. word .. TOP)
end
return answers
