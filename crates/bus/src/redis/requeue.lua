-- Puts entries that are with a consumer behind all that waits, so that any consumer is given them. An entry gets a
-- new id: a blocked reader is woken by new ids only. What was acknowledged or moved meanwhile is passed over.
-- KEYS[1]  the stream
-- ARGV[1]  the consumer group
-- ARGV[2], ARGV[3], ...  pairs: id of an entry; how many deliveries are to be added to its count
-- Returns how many were moved. At most 500 pairs a call.
local moved = 0
for at = 2, #ARGV, 2 do
  local id = ARGV[at]
  local entry = redis.call('XRANGE', KEYS[1], id, id)[1]
  if redis.call('XACK', KEYS[1], ARGV[1], id) == 1 and entry then
    local body, times = '', tonumber(ARGV[at + 1])
    for field = 1, #entry[2], 2 do
      if entry[2][field] == 'b' then body = entry[2][field + 1] end
      if entry[2][field] == 't' then times = times + tonumber(entry[2][field + 1]) end
    end
    redis.call('XADD', KEYS[1], '*', 'b', body, 't', times)
    redis.call('XDEL', KEYS[1], id)
    moved = moved + 1
  end
end
return moved
