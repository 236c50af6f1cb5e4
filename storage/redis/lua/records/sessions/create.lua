#!lua
-- create.lua creates a session. If its user has too many, the one that has been idle the longest ends.
--
-- KEYS[1] session   hash    the new session
-- KEYS[2] sessions  set     IDs of the user's sessions
-- KEYS[3] ended     string  when all sessions of the user were ended, in seconds, also with a fraction; only while
--                           those of Discours.io are accepted
--
-- ARGV[1]  id        string  of the session
-- ARGV[2]  base      string  what the keys of the user's sessions start with, before their IDs
-- ARGV[3]  ttl_ms    int     life of a session without activity
-- ARGV[4]  most      int     sessions at most, this one included
-- ARGV[5]  since_ms  int     of Discours.io: it is ended if all were ended then or later; "": it is new
-- ARGV[6]  created   int     when it was created, in seconds; "": now
-- ARGV[7…] values    string  name and value of each field, but for its times
--
-- Returns {"OK", username, created_s, last_activity_s, device_info, auth_data, ends_ms}, {"ENDED"} if the session of
-- Discours.io was ended with all others, or {"MOVING"} if the slot is half moved.
-- Safe to run twice: yes, the second run finds the session.
local session_key, sessions_key, ended_key = KEYS[1], KEYS[2], KEYS[3]
local id, base, ttl_ms, most = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local since_ms, created, values = ARGV[5], ARGV[6], {unpack(ARGV, 7)}

local _, now_ms = time.now()
local ended = since_ms ~= '' and redis.call('GET', ended_key)
if ended and tonumber(since_ms) <= math.floor(tonumber(ended) * 1000 + 0.5) then
  return {'ENDED'}
end
acl.require(sessions_key, 'SADD', 'SREM', 'PEXPIREAT')
acl.require(session_key, 'HSET', 'PEXPIREAT', 'DEL')
if redis.call('EXISTS', session_key) == 0 then
  if not slot.try(sessions.make_room, sessions_key, base, most) then
    return {'MOVING'}
  end
  created = created ~= '' and created or time.decimal(math.floor(now_ms / 1000))
  redis.call('SADD', sessions_key, id)
  redis.call('HSET', session_key, 'created_at', created, unpack(values))
  sessions.renew(session_key, sessions_key, now_ms, ttl_ms)
end
return {'OK', unpack(sessions.fields(session_key))}
