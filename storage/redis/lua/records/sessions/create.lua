#!lua
-- create.lua creates a session. If its user has too many, the one that has been idle the longest ends.
--
-- KEYS[1] session   hash  the new session
-- KEYS[2] sessions  set   IDs of the user's sessions
--
-- ARGV[1]  id        string  of the session
-- ARGV[2]  base      string  what the keys of the user's sessions start with, before their IDs
-- ARGV[3]  ttl_ms    int     life of a session without activity
-- ARGV[4]  most      int     sessions at most, this one included
-- ARGV[5…] values    string  name and value of each field, but for its times
--
-- Returns {"OK", username, created_s, last_activity_s, device_info, auth_data, ends_ms} or {"MOVING"} if the
-- slot is half moved.
-- Safe to run twice: yes, the second run finds the session.
local session_key, sessions_key = KEYS[1], KEYS[2]
local id, base, ttl_ms, most = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local values = {unpack(ARGV, 5)}

local _, now_ms = time.now()
acl.require(sessions_key, 'SADD', 'SREM', 'PEXPIREAT')
acl.require(session_key, 'HSET', 'PEXPIREAT', 'DEL')
if redis.call('EXISTS', session_key) == 0 then
  if not slot.try(sessions.make_room, sessions_key, base, most) then
    return {'MOVING'}
  end
  redis.call('SADD', sessions_key, id)
  redis.call('HSET', session_key, 'created_at', time.decimal(math.floor(now_ms / 1000)), unpack(values))
  sessions.renew(session_key, sessions_key, now_ms, ttl_ms)
end
return {'OK', unpack(sessions.fields(session_key))}
