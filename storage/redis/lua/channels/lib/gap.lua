-- gap.lua finds the oldest message alive. A message expires no earlier than those before it, so that a binary
-- search finds it.
--
-- A log is {prefix, here}: what its message keys start with, and a key that is here, for undeclared() in slot.lua.

-- define: key_at
local function key_at(log, clock)
  return string.format('%s%d', log.prefix, clock)
end

-- define: alive
-- uses: gap.key_at slot.undeclared
local function alive(log, clock)
  return undeclared('EXISTS', log.here, key_at(log, clock)) == 2
end

-- define: oldest_in
-- uses: clock.add clock.distance gap.alive
-- oldest_in returns how many steps after mark the oldest message alive in (mark, clock] is, or nil if there is none.
local function oldest_in(log, mark, clock)
  local low, high = 0, distance(mark, clock)
  if high == 0 or not alive(log, clock) then
    return nil
  end
  while high - low > 1 do
    local middle = math.floor((low + high) / 2)
    if alive(log, add(mark, middle)) then
      high = middle
    else
      low = middle
    end
  end
  return high
end

-- define: oldest
-- uses: clock.sub gap.alive gap.oldest_in
-- oldest returns how many steps behind the clock the oldest message alive is, at most limit - 1, or nil if there is none.
local function oldest(log, clock, limit)
  local step = 1
  while step < limit and alive(log, sub(clock, step)) do
    step = step * 2
  end
  local reach = math.min(step, limit)
  local found = oldest_in(log, sub(clock, reach), clock)
  return found and reach - found
end
