-- check.lua reads a session, and renews it if it was idle for some time: not each check is a write. It has no #! line,
-- and continues if Redis refuses to write: sessions can be checked as long as Redis can be read.
--
-- KEYS[1] session   hash  the session
-- KEYS[2] sessions  set   IDs of the user's sessions
--
-- ARGV[1] id        string  of the session
-- ARGV[2] ttl_ms    int     life of a session without activity
-- ARGV[3] renew_ms  int     how long it is idle before it is renewed
--
-- Returns {"OK", username, created_s, last_activity_s, device_info, auth_data, ends_ms} or {"UNKNOWN"}.
-- Safe to run twice: yes.
local session_key, sessions_key = KEYS[1], KEYS[2]
local id, ttl_ms, renew_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local found = sessions.fields(session_key)
if found[2] == '' or redis.call('SISMEMBER', sessions_key, id) == 0 then
  return {'UNKNOWN'}
end
local _, now_ms = time.now()
if now_ms - (tonumber(found[3]) or 0) * 1000 >= renew_ms or found[#found] < 0 then
  acl.require(session_key, 'HSET', 'PEXPIREAT')
  acl.require(sessions_key, 'PEXPIREAT')
  if pcall(sessions.renew, session_key, sessions_key, now_ms, ttl_ms) then
    found = sessions.fields(session_key)
  end
end
return {'OK', unpack(found)}
