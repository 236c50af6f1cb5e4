-- subs.lua reads the marks of subscribers by their names.

-- define: marks
-- uses: clock.behind clock.show slot.undeclared
-- marks returns name, mark, name, mark, … of those of the names that have a mark, and drops the others from the subs. It
-- reads undeclared keys: see served() in slot.lua.
local function marks(keys, names, clock, mark_prefix)
  local wanted, found, gone = {keys.clock}, {}, {}
  for i, name in ipairs(names) do
    wanted[i + 1] = mark_prefix .. name
  end
  local values = undeclared('MGET', unpack(wanted))
  for i, name in ipairs(names) do
    local mark = tonumber(values[i + 1])
    if mark and behind(mark, clock) then
      found[#found + 1], found[#found + 2] = name, show(mark)
    else
      gone[#gone + 1] = name
    end
  end
  if #gone > 0 then
    redis.call('SREM', keys.subs, unpack(gone))
  end
  return found
end

-- define: prune
-- uses: slot.served subs.marks
-- prune looks at two names of a long list, for each new one, so that those without a mark don't become more than the
-- others. It leaves them if the slot is half moved.
local function prune(keys, clock, mark_prefix)
  if redis.call('SCARD', keys.subs) > 100 then
    served(marks, keys, redis.call('SRANDMEMBER', keys.subs, 2), clock, mark_prefix)
  end
end

-- define: full
-- uses: slot.served subs.marks
-- full reports whether a channel has as many subscribers as it may. Of names without a mark it drops those that it finds among
-- a hundred.
local function full(keys, clock, mark_prefix, most)
  if redis.call('SCARD', keys.subs) < most then
    return false
  end
  served(marks, keys, redis.call('SRANDMEMBER', keys.subs, 100), clock, mark_prefix)
  return redis.call('SCARD', keys.subs) >= most
end
