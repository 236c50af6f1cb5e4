#!lua flags=allow-oom
-- rotate.lua changes the ID of a session, and renews it for the full TTL: its old token is no longer valid. It may run
-- when Redis is out of memory.
--
-- KEYS[1] session   hash  the session
-- KEYS[2] next      hash  the session under its new ID
-- KEYS[3] sessions  set   IDs of the user's sessions
--
-- ARGV[1] id      string  of the session
-- ARGV[2] new_id  string  its new ID
-- ARGV[3] ttl_ms  int     life of a session without activity
--
-- Returns {"OK", username, created_s, last_activity_s, device_info, auth_data, ends_ms} or {"UNKNOWN"}.
-- Safe to run twice: yes, the second run finds the session under its new ID.
local session_key, next_key, sessions_key = KEYS[1], KEYS[2], KEYS[3]
local id, new_id, ttl_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])

local rotated = sessions.fields(next_key)
if rotated[2] ~= '' and redis.call('SISMEMBER', sessions_key, new_id) == 1 then
  return {'OK', unpack(rotated)}
end
if sessions.fields(session_key)[2] == '' or redis.call('SISMEMBER', sessions_key, id) == 0 then
  return {'UNKNOWN'}
end
acl.require(sessions_key, 'SADD', 'SREM', 'PEXPIREAT')
acl.require(session_key, 'HSET', 'PEXPIREAT')
local _, now_ms = time.now()
redis.call('RENAME', session_key, next_key)
redis.call('SREM', sessions_key, id)
redis.call('SADD', sessions_key, new_id)
sessions.renew(next_key, sessions_key, now_ms, ttl_ms)
return {'OK', unpack(sessions.fields(next_key))}
