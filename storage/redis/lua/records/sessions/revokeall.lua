#!lua flags=allow-oom
-- revokeall.lua ends all sessions of a user. It may run when Redis is out of memory.
--
-- KEYS[1] sessions  set  IDs of the user's sessions
--
-- ARGV[1] base  string  what the keys of the user's sessions start with, before their IDs
--
-- Returns {"OK", ended}: how many were there, or {"MOVING"} if the slot is half moved.
-- Safe to run twice: yes.
local sessions_key, base = KEYS[1], ARGV[1]

local ids = redis.call('SMEMBERS', sessions_key)
if not slot.try(sessions.probe, sessions_key, base, ids) then
  return {'MOVING'}
end
acl.require(sessions_key, 'DEL')
local count = 0
for i, id in ipairs(ids) do
  ids[i] = base .. id
end
batch.each(ids, function(...)
  count = count + redis.call('DEL', ...)
end)
redis.call('DEL', sessions_key)
return {'OK', count}
