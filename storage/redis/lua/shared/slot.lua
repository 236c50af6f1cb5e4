-- slot.lua reads keys that a script does not declare. This can fail while their slot is half moved.

local slot = {}

-- MOVING is the error of slot.read in a slot that is half moved.
slot.MOVING = 'MOVING'

-- forbidden reports whether an error means that the user lacks a right. Redis 7.0 has no code for it in scripts.
function slot.forbidden(text)
  return string.find(text, '^NOPERM') or string.find(text, 'user executing the script', 1, true)
end

-- WRONG_TYPE is what the error of a command begins with that reads a value of another type.
slot.WRONG_TYPE = '^WRONGTYPE'

-- read runs a reading command. It returns nil if a key has a value of another type. One of its keys must be a declared
-- key that exists: the node to which a slot is being moved answers a command on a single key that has not arrived yet
-- as if it did not exist, but refuses a command on several keys of which one is missing, as does the node from which
-- the slot is moved.
function slot.read(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    if string.find(reply.err, slot.WRONG_TYPE) then
      return nil
    end
    error(slot.forbidden(reply.err) and reply.err or slot.MOVING, 0)
  end
  return reply
end

-- try calls a function that uses slot.read. It returns false if the slot is half moved, else true and up to 3 results.
-- All other errors are raised again. Redis's pcall returns the text of an error, never its table.
function slot.try(read, ...)
  local ok, first, second, third = pcall(read, ...)
  if not ok and first ~= slot.MOVING then
    error({err = first})
  end
  return ok, first, second, third
end
