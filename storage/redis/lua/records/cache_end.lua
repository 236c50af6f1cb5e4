#!lua flags=allow-oom
-- cache_end.lua ends the claim on a cached value without storing one. It may run when Redis is out of memory.
--
-- KEYS[1] load  string  token of the one that makes the value; "absent" if there is none
--
-- ARGV[1] token      string  of the claim
-- ARGV[2] absent_ms  int     how long others are told that there is no value; 0: not at all
--
-- Returns {"OK"}, also if the token has no claim and nothing was changed.
-- Safe to run twice: yes.
local load_key = KEYS[1]
local token, absent_ms = ARGV[1], ARGV[2]

if redis.call('GET', load_key) == token then
  if absent_ms == '0' then
    redis.call('DEL', load_key)
  else
    redis.call('SET', load_key, 'absent', 'PX', absent_ms)
  end
end
return {'OK'}
