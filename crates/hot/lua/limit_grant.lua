#!lua flags=allow-oom
-- Grants places to attempts: each in all of its scopes and with a start from all of its rates, or none of either. A member
-- that holds a place already is granted again and costs nothing: it says anew since when it holds it and when to look.
-- Rates run on this server's clock.
-- KEYS     1 whole (the history that has all members)  2 members (HASH, member to its record)
--          3 until (ZSET, member by when to look at it, ms)
--          4 holds (ZSET without scores: length of a scope's word in 2 bytes, the word, member)
--          5 buckets (HASH, scope's word to "units period at", in whole numbers below 2^53)
-- ARGV     1 now (ms; '': this server's)  2 how many scopes, and for each: word (with its length), most
--          then how many rates, and for each: word, limit, period (ms), burst
--          then for each wish: member (id and fence in 8 bytes each), until (ms), the numbers of its scopes and
--          of its rates (from 1, in 2 bytes each), record (when it was granted in 8 bytes, then opaque up to its scopes,
--          see limit_release)
-- Returns  nothing: members were lost.  For each wish: 0, 0: granted;  n, 0: scope n is full;  -n, wait (ms; -1: for ever):
--          rate n has no start left

-- The history that this server writes: another one after a failover or a restart, which may lack what was answered last.
local function history()
  return string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or ''
end

local whole = redis.call('GET', KEYS[1])
if not whole or whole ~= history() then
  if whole and string.sub(whole, 1, 1) ~= '~' then
    -- `limit_room` only looks whether there is one.
    redis.call('DEL', KEYS[1])
  end
  return {}
end
local TOP, at = string.rep('\255', 17), 2

local function next_arg()
  at = at + 1
  return ARGV[at - 1]
end

local function clock()
  if ARGV[1] ~= '' then
    return tonumber(ARGV[1])
  end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local scopes, rates = {}, {}
for n = 1, tonumber(next_arg()) do
  scopes[n] = { word = next_arg(), most = tonumber(next_arg()) }
end
for n = 1, tonumber(next_arg()) do
  rates[n] = { word = next_arg(), limit = tonumber(next_arg()), period = tonumber(next_arg()), burst = tonumber(next_arg()) }
end

local function held(scope)
  scope.held = scope.held or redis.call('ZLEXCOUNT', KEYS[4], '[' .. scope.word, '[' .. scope.word .. TOP)
  return scope.held
end

-- `domain::limits::Bucket`, in the same steps.
local function filled(rate)
  if rate.units then
    return rate
  end
  local now, full = clock(), rate.burst * rate.period
  local units, period, was_at = string.match(redis.call('HGET', KEYS[5], rate.word) or '', '^(%d+) (%d+) (%d+)$')
  if not units then
    rate.units, rate.at = full, now
    return rate
  end
  units, period, was_at = tonumber(units), tonumber(period), tonumber(was_at)
  if period ~= rate.period then
    units = math.min(math.floor(units / period), rate.burst) * rate.period
  end
  local elapsed, missing = math.max(now - was_at, 0), math.max(full - units, 0)
  if rate.limit > 0 and elapsed >= math.floor(missing / rate.limit) + 1 then
    units = full
  else
    units = math.min(units + elapsed * rate.limit, full)
  end
  rate.units, rate.at = units, math.max(now, was_at)
  return rate
end

-- Most wishes of a call name the same scopes.
local parsed = {}

local function numbers(bytes)
  local list = parsed[bytes]
  if not list then
    list = {}
    for i = 1, #bytes, 2 do
      list[#list + 1] = struct.unpack('>I2', bytes, i)
    end
    parsed[bytes] = list
  end
  return list
end

local function what_stands_in_the_way(own_scopes, own_rates)
  for _, n in ipairs(own_scopes) do
    if held(scopes[n]) >= scopes[n].most then
      return n, 0
    end
  end
  for _, n in ipairs(own_rates) do
    local rate = filled(rates[n])
    if rate.units < rate.period then
      return -n, rate.limit > 0 and math.ceil((rate.period - rate.units) / rate.limit) or -1
    end
  end
  return 0, 0
end

-- The old record with the new stamp, or with one more than the old: whoever had it before must not find his own.
local function held_anew(old, new)
  local high, low = struct.unpack('>I4I4', new)
  local old_high, old_low = struct.unpack('>I4I4', old)
  if high < old_high or (high == old_high and low <= old_low) then
    high, low = old_high, old_low + 1
    if low > 4294967295 then
      high, low = high + 1, 0
    end
  end
  return struct.pack('>I4I4', high, low) .. string.sub(old, 9)
end

local wishes, members = {}, {}
while at <= #ARGV do
  local member = next_arg()
  wishes[#wishes + 1] = { member, next_arg(), numbers(next_arg()), numbers(next_arg()), next_arg() }
  members[#members + 1] = member
end

-- Commands of many members: a command for each costs twice as much as the rest of the script. Lua passes at most 8,000 values.
local PASSED = 4000

local function each_part(command, key, values)
  for i = 1, #values, PASSED do
    redis.call(command, key, unpack(values, i, math.min(i + PASSED - 1, #values)))
  end
end

-- Record of each member that holds a place: before this call, then as this call leaves it.
local records = {}
for i = 1, #members, PASSED do
  local last = math.min(i + PASSED - 1, #members)
  for n, record in ipairs(redis.call('HMGET', KEYS[2], unpack(members, i, last))) do
    records[members[i + n - 1]] = record
  end
end

local answers, holds, until_, written = {}, {}, {}, {}

local function write(member, til, record)
  records[member] = record
  written[#written + 1], written[#written + 2] = member, record
  until_[#until_ + 1], until_[#until_ + 2] = til, member
end

for _, wish in ipairs(wishes) do
  local member, til, own_scopes, own_rates, record = unpack(wish)
  local code, wait = 0, 0
  local old = records[member]
  if old then
    write(member, til, held_anew(old, record))
  else
    code, wait = what_stands_in_the_way(own_scopes, own_rates)
    if code == 0 then
      for _, n in ipairs(own_scopes) do
        holds[#holds + 1], holds[#holds + 2] = 0, scopes[n].word .. member
        scopes[n].held = held(scopes[n]) + 1
      end
      for _, n in ipairs(own_rates) do
        rates[n].units = rates[n].units - rates[n].period
      end
      if #own_scopes > 0 then
        write(member, til, record)
      end
    end
  end
  answers[#answers + 1], answers[#answers + 2] = code, wait
end
each_part('ZADD', KEYS[4], holds)
each_part('HSET', KEYS[2], written)
each_part('ZADD', KEYS[3], until_)
for _, rate in ipairs(rates) do
  if rate.units then
    redis.call('HSET', KEYS[5], rate.word, string.format('%.0f %.0f %.0f', rate.units, rate.period, rate.at))
  end
end
return answers
