-- slot.lua reads keys that a script doesn't declare, which can fail while the channel's slot is half moved.

-- define: MOVING
local MOVING = 'MOVING'

-- define: forbidden
-- forbidden reports whether an error means that Redis's user lacks a right. Redis 7.0 has no code for it in scripts.
local function forbidden(text)
  return string.find(text, '^NOPERM') or string.find(text, 'user executing the script', 1, true)
end

-- define: undeclared
-- uses: slot.MOVING slot.forbidden
-- undeclared runs a reading command. One key of it must be a declared one that is here: the node to which a slot is
-- being moved takes a lone key that hasn't come yet for one that isn't there, but it refuses two keys of which one
-- is missing, as the node that the slot comes from does.
local function undeclared(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    error(forbidden(reply.err) and reply.err or MOVING, 0)
  end
  return reply
end

-- define: served
-- uses: slot.MOVING
-- served calls a function that reads undeclared keys. It returns false if Redis refused that because the slot is half moved,
-- else true and up to 3 results. Redis's pcall returns the text of an error, never its table.
local function served(read, ...)
  local ok, first, second, third = pcall(read, ...)
  if not ok and first ~= MOVING then
    error({err = first})
  end
  return ok, first, second, third
end
