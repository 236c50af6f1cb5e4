#!lua flags=no-writes
-- list.lua reads all sessions of a user, without the data for back ends.
--
-- KEYS[1] sessions  set  IDs of the user's sessions
--
-- ARGV[1] base  string  what the keys of the user's sessions start with, before their IDs
--
-- Returns {"OK", id, username, created_s, last_activity_s, device_info or "", ends_ms, …}, six values for each, or
-- {"MOVING"} if the slot is half moved.
-- Safe to run twice: yes, it only reads.
local sessions_key = KEYS[1]
local base = ARGV[1]

local ids = redis.call('SMEMBERS', sessions_key)
if not slot.try(sessions.probe, sessions_key, base, ids) then
  return {'MOVING'}
end
local reply = {'OK'}
for _, id in ipairs(ids) do
  local key = base .. id
  local found = redis.call('HMGET', key, 'username', 'created_at', 'last_activity', 'device_info')
  if found[2] then
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = id, found[1] or '', found[2], found[3] or found[2]
    reply[n + 5], reply[n + 6] = found[4] or '', redis.call('PEXPIRETIME', key)
  end
end
return reply
