-- batch.lua passes long lists to commands in batches: Lua cannot unpack more than about 8,000 values at once.

local batch = {}

-- SIZE is the number of values in a batch.
batch.SIZE = 1000

-- from returns the values of a list from an index on.
function batch.from(list, first)
  local rest = {}
  for i = first, #list do
    rest[#rest + 1] = list[i]
  end
  return rest
end

-- each calls a function with the values of a list, in order, SIZE at a time.
function batch.each(list, call)
  for first = 1, #list, batch.SIZE do
    call(unpack(list, first, math.min(first + batch.SIZE - 1, #list)))
  end
end

-- replies returns the replies of a command to members of a key, in order.
function batch.replies(command, key, members)
  local found = {}
  batch.each(members, function(...)
    for _, reply in ipairs(redis.call(command, key, ...)) do
      found[#found + 1] = reply
    end
  end)
  return found
end
