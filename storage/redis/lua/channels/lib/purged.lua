-- purged.lua reads which of a channel's messages were purged: "<first> <last>", the clocks of the oldest and of the
-- latest one.

local purged = {}

-- range returns the two clocks of a value, or nil if there is none.
function purged.range(value)
  local first, last = string.match(value or '', '^(%-?%d+) (%-?%d+)$')
  return tonumber(first), tonumber(last)
end

-- count returns how many of the clocks after a mark, up to another clock, were purged. The log has the key, purged, and
-- a declared key that exists, here.
function purged.count(log, mark, through)
  local first, last = purged.range(slot.read('MGET', log.here, log.purged)[2])
  if not first or clocks.behind(last, mark) then
    return 0
  end
  local begin = clocks.behind(first, mark) and 1 or clocks.distance(mark, first)
  return math.max(0, math.min(clocks.distance(mark, last), clocks.distance(mark, through)) - begin + 1)
end
