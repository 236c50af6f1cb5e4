-- subs.lua reads the marks of subscribers by their names.

local subs = {}

-- marks returns name, mark, name, mark, … for the names that have a mark, and removes the others from the subs, but for
-- those whose mark is damaged. It reads undeclared keys: call it by slot.try.
function subs.marks(keys, names, clock, mark_prefix)
  local wanted, found, gone = {keys.clock}, {}, {}
  for i, name in ipairs(names) do
    wanted[i + 1] = mark_prefix .. name
  end
  local values = slot.read('MGET', unpack(wanted))
  for i, name in ipairs(names) do
    local text = values[i + 1]
    local mark = text and clocks.parse(text)
    if mark and clocks.behind(mark, clock) then
      found[#found + 1], found[#found + 2] = name, clocks.show(mark)
    elseif mark or not text then
      gone[#gone + 1] = name
    end
  end
  if #gone > 0 then
    redis.call('SREM', keys.subs, unpack(gone))
  end
  return found
end

-- prune checks two random names of a long list and removes them if they have no mark. It is called for each new name,
-- so that names without a mark do not accumulate. It does nothing while the slot is half moved.
function subs.prune(keys, clock, mark_prefix)
  if redis.call('SCARD', keys.subs) > 100 then
    slot.try(subs.marks, keys, redis.call('SRANDMEMBER', keys.subs, 2), clock, mark_prefix)
  end
end

-- full reports whether a channel has the maximum number of subscribers. Before that it checks a hundred random names
-- and removes those without a mark.
function subs.full(keys, clock, mark_prefix, most)
  if redis.call('SCARD', keys.subs) < most then
    return false
  end
  slot.try(subs.marks, keys, redis.call('SRANDMEMBER', keys.subs, 100), clock, mark_prefix)
  return redis.call('SCARD', keys.subs) >= most
end
