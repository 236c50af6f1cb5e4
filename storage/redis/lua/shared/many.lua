-- many.lua passes long lists to commands in parts: Lua can't unpack more than some 8,000 values at once.

-- define: AT_ONCE
local AT_ONCE = 1000

-- define: from
-- from returns the values of a list from an index on.
local function from(list, first)
  local rest = {}
  for i = first, #list do
    rest[#rest + 1] = list[i]
  end
  return rest
end

-- define: each
-- uses: many.AT_ONCE
-- each calls a function with the values of a list, in order, AT_ONCE at a time.
local function each(list, call)
  for first = 1, #list, AT_ONCE do
    call(unpack(list, first, math.min(first + AT_ONCE - 1, #list)))
  end
end

-- define: gather
-- uses: many.each
-- gather returns what a command replies for each of some members of a key, in order.
local function gather(command, key, members)
  local found = {}
  each(members, function(...)
    for _, reply in ipairs(redis.call(command, key, ...)) do
      found[#found + 1] = reply
    end
  end)
  return found
end
