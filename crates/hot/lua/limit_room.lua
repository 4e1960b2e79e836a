#!lua flags=no-writes
-- How much could be granted now, without granting any of it.
-- KEYS     1 whole (the history that has all members)
--          2 holds (ZSET without scores: length of a scope's word in 2 bytes, the word, member)
--          3 buckets (HASH, scope's word to "units period at", in whole numbers below 2^53)
-- ARGV     1 now (ms; '': this server's)  2 how many scopes, and for each: word (with its length), most
--          then for each rate: word, limit, period (ms), burst
-- Returns  nothing: members were lost.  For each scope: how many members it has; then for each rate: starts in it, and
--          how long until there is one (ms; -1: never)

-- Of which history is looked at by whoever grants.
local whole = redis.call('GET', KEYS[1])
if not whole or string.sub(whole, 1, 1) == '~' then
  return {}
end
local TOP, at, answers = string.rep('\255', 17), 3, {}
for _ = 1, tonumber(ARGV[2]) do
  answers[#answers + 1] = redis.call('ZLEXCOUNT', KEYS[2], '[' .. ARGV[at], '[' .. ARGV[at] .. TOP)
  at = at + 2
end

local function clock()
  if ARGV[1] ~= '' then
    return tonumber(ARGV[1])
  end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- `domain::limits::Bucket`, in the same steps.
local function units_in(word, limit, now_period, burst)
  local full = burst * now_period
  local units, period, was_at = string.match(redis.call('HGET', KEYS[3], word) or '', '^(%d+) (%d+) (%d+)$')
  if not units then
    return full
  end
  units, period = tonumber(units), tonumber(period)
  if period ~= now_period then
    units = math.min(math.floor(units / period), burst) * now_period
  end
  local elapsed, missing = math.max(clock() - tonumber(was_at), 0), math.max(full - units, 0)
  if limit > 0 and elapsed >= math.floor(missing / limit) + 1 then
    return full
  end
  return math.min(units + elapsed * limit, full)
end

while at <= #ARGV do
  local limit, period, burst = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local units = units_in(ARGV[at], limit, period, burst)
  answers[#answers + 1] = math.floor(units / period)
  answers[#answers + 1] = units >= period and 0 or limit > 0 and math.ceil((period - units) / limit) or -1
  at = at + 4
end
return answers
