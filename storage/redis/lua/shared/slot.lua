-- slot.lua reads keys that a script does not declare, which can fail while their slot is half moved, and keys whose
-- value may have another type.

local slot = {}

-- MOVING is the error of slot.read in a slot that is half moved.
slot.MOVING = 'MOVING'

-- forbidden reports whether an error means that the user lacks a right. Redis 7.0 has no code for it in scripts.
function slot.forbidden(text)
  return string.find(text, '^NOPERM') or string.find(text, 'user executing the script', 1, true)
end

-- is_wrong_type reports whether a reply of pcall is the error of a command on a value of another type.
function slot.is_wrong_type(reply)
  return type(reply) == 'table' and reply.err and string.find(reply.err, '^WRONGTYPE')
end

-- value returns a reply of pcall to a command on a declared key: nil if the key has a value of another type, which MGET
-- does not find either. It raises other errors.
function slot.value(reply)
  if slot.is_wrong_type(reply) then
    return nil
  elseif type(reply) == 'table' and reply.err then
    error(reply)
  end
  return reply
end

-- read runs a reading command. It returns nil if a key has a value of another type. One of its keys must be a declared
-- key that exists: the node to which a slot is being moved answers a command on a single key that has not arrived yet
-- as if it did not exist, but refuses a command on several keys of which one is missing, as does the node from which
-- the slot is moved.
function slot.read(...)
  local reply = redis.pcall(...)
  if slot.is_wrong_type(reply) then
    return nil
  elseif type(reply) == 'table' and reply.err then
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
