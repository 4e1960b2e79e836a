#!lua flags=allow-oom
-- Says what an engine has seen asked for, and looks what all have said lately. What was said too long ago is forgotten.
-- KEYS     1 demands (HASH, engine to "when it was said (ms)", a blank, what it said)
-- ARGV     1 now (ms; '': this server's)  2 engine  3 what it says  4 how long that is known (ms)
-- Returns  what each engine has said

local function clock()
  if ARGV[1] ~= '' then
    return tonumber(ARGV[1])
  end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local now = clock()
redis.call('HSET', KEYS[1], ARGV[2], string.format('%.0f ', now) .. ARGV[3])
local answers, said = {}, redis.call('HGETALL', KEYS[1])
for n = 1, #said, 2 do
  local at, from = string.match(said[n + 1], '^(%d+) ()')
  if at and now - tonumber(at) <= tonumber(ARGV[4]) then
    answers[#answers + 1] = string.sub(said[n + 1], from)
  else
    redis.call('HDEL', KEYS[1], said[n])
  end
end
return answers
