#!lua flags=allow-oom
-- revoke.lua ends a session. It may run when Redis is out of memory.
--
-- KEYS[1] session   hash  the session
-- KEYS[2] sessions  set   IDs of the user's sessions
--
-- ARGV[1] id  string  of the session
--
-- Returns {"OK"}, also if the session does not exist.
-- Safe to run twice: yes.
local session_key, sessions_key = KEYS[1], KEYS[2]
local id = ARGV[1]

acl.require(sessions_key, 'SREM')
redis.call('DEL', session_key)
redis.call('SREM', sessions_key, id)
return {'OK'}
